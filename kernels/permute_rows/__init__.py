"""Brings rows into another order. See README.md; start at `api`."""
