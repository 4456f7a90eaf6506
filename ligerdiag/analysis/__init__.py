"""Dependence-set equality between the program as written and the schedule as compiled; one analysis per file.

`verdict/` decides what follows from it; the rest evaluates both programs for it, or draws what it says.

Notation used in the comments of this package:
  (1) A *hidden write* W is one (kernel call, operand) pair that the kernel's IR writes and no output aliases.
  (2) *Intended* is the unoptimized module in program order, each value with storage of its own.
  (3) *Actual* is the optimized module in schedule order, on XLA's own buffer assignment.
  (4) A label is one bit of a dependence set; the sets of both programs are computed by the same rules and compared.
"""
