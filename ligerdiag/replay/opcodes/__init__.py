"""What each opcode computes, one file per family. `table.py` lists them."""
