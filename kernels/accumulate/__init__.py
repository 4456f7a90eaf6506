"""Adds the sum of an array to a number, in place, by atomics. See README.md; start at `api`."""
