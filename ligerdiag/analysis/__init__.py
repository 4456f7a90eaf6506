"""Compares the dependence sets of the program as written and the schedule as compiled; one analysis per file.

`verdict/` decides what follows; the other modules evaluate both programs for it, or describe the result.

- A *hidden write* W is one (kernel call, operand) pair that the kernel's IR writes and no output aliases.
- *Intended* is the unoptimized module in program order, each value with its own storage.
- *Actual* is the optimized module in schedule order, on XLA's own buffer assignment.
- A *dependence set* says on which hidden writes a value depends; a label is one bit of it. The same rules compute the
  sets of both programs.
"""
