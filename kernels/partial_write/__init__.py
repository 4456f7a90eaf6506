"""Kernels that leave elements of their outputs as they are. See README.md; start at `api`."""
