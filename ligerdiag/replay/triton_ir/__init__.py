"""Evaluates kernels in Triton IR in NumPy, all programs of a launch together."""
