"""Mosaic GPU kernels: what their payload reads and writes."""
