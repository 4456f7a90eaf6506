"""Traces a case in a worker, tags its operations with numbers, lowers and compiles it. Also records the program as its
author intended it, before JAX and MLIR can fold or move a read to the other side of a kernel's write (see `intent`).
"""
