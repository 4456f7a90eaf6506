"""Random programs around kernels that overwrite an operand; each is judged by its schedule and by its numbers."""
