"""Rotary position embedding that rotates queries and keys in place. See README.md; start at `api`."""
