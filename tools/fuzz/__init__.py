"""Draws random programs around kernels that overwrite an operand, and judges each by its schedule and by its numbers."""
