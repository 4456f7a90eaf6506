"""Triton kernels that overwrite an operand, each in the modes of `kernels.modes`."""
