"""Replay: runs the program as its author wrote it and XLA's schedule of it on numbers, on the CPU, and compares their
outputs.
"""
