"""Evaluates Triton IR in NumPy, all programs of a launch together."""
