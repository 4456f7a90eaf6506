"""Runs the kernels of an artifact on bytes, from their Triton IR, and watches them."""
