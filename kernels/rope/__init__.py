"""Rotary position embedding that turns queries and keys where they stand. See README.md; start at `api`."""
