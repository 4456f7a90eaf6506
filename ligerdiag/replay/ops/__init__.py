"""Computes each opcode, one file per family. `table.py` lists them."""
