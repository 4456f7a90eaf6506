"""Multiplies an array by a number, in place. See README.md; start at `api`."""
