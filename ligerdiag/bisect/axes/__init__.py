"""Axes: what varies a compile, one question a file."""
