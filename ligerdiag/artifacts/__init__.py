"""Artifacts: what one compilation left behind, in directories that the cache names by their content."""
