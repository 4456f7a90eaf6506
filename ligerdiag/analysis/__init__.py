"""Computes on which hidden writes each value depends, in the program as written and in the schedule that XLA made of it, and
compares the two. Each file has one analysis.

The package `verdict` turns the differences into verdicts; the other modules evaluate both programs for it, or describe
the result.

- A *hidden write* W is one (kernel call, operand) pair such that the kernel's IR writes the operand and no output of
  the call aliases the operand.
- *Intended* is the unoptimized module in program order, each value with its own storage.
- *Actual* is the optimized module in schedule order, on XLA's own buffer assignment.
- A *dependence set* says on which hidden writes a value depends; a *label* is one element (one bit) of it. The same
  rules compute the sets of both programs.
"""
