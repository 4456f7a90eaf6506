"""Computes each HLO opcode, one family per file; `evaluate` has the table of all of them."""
