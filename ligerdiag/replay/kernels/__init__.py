"""Runs kernels of an artifact on bytes, through Triton's interpreter, from their own Python source."""
