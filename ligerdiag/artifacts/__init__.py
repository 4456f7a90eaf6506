"""Artifacts: the results of one compilation each, in directories that the cache names by what was compiled."""
