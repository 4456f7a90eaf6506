"""Evaluates kernels in Triton IR with NumPy, many programs of a launch's grid at a time."""
