"""The three runs of a replay: the program in program order, the same with kernels that leave their operands unchanged
(isolated memory), and the schedule, XLA's optimized module, on the bytes that its buffer assignment gives to values.
"""
