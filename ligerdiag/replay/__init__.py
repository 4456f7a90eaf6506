"""Replay: runs the program as written and its schedule on numbers, on the CPU, and compares their outputs."""
