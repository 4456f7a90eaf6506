"""Is the schedule that XLA made of a JAX program still right when a Triton kernel overwrites one of its operands?"""

from ligerdiag.case import Arg, Case, Draw

__all__ = ["Arg", "Case", "Draw"]
