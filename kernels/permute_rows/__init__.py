"""Permutes rows. See README.md; start at `api`."""
