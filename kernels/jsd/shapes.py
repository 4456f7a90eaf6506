"""Named shapes, shared by tests, cases and benchmarks. Imports no framework."""

from kernels.kl_div.shapes import LLAMA_3, SMALL, Shape

__all__ = ["LLAMA_3", "SMALL", "Shape"]
