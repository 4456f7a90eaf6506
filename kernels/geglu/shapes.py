"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from kernels.swiglu.shapes import LLAMA_7B_MLP, LLAMA_8B, SMALL, Shape

__all__ = ["LLAMA_7B_MLP", "LLAMA_8B", "SMALL", "Shape"]
