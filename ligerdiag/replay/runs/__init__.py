"""The three runs of a replay. The first is the program in program order, the second the same with kernels that leave their
operands unchanged (isolated memory). The third is the schedule, XLA's optimized module, on the bytes that its buffer
assignment gives to values.
"""
