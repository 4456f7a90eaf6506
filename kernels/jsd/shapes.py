"""Defines named shapes that tests, cases and benchmarks share. Imports no framework."""

from kernels.kl_div.shapes import LLAMA_3, SMALL, Shape

__all__ = ["LLAMA_3", "SMALL", "Shape"]
