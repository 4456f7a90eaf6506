"""Artifacts: the results of one compilation, in directories that the cache names by their content."""
