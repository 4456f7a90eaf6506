"""Kernels that leave some elements of their outputs unwritten. See README.md; start at `api`."""
