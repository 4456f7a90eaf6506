"""Computes the effects of Mosaic GPU kernels on the buffers of their calls."""
