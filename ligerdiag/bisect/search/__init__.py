"""Searches over what varies a compile: trials, where they are compiled and judged, and which sets and changes matter."""
