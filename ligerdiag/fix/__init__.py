"""Finds a change of the user's source that makes every output fresh, and proves it: one module for each step."""
