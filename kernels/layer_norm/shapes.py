"""Named shapes, shared by tests, cases and benchmarks. Imports no framework."""

from kernels.rms_norm.shapes import LLAMA_7B_MLP, LLAMA_8B, SMALL, Shape

__all__ = ["LLAMA_7B_MLP", "LLAMA_8B", "SMALL", "Shape"]
