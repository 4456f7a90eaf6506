"""The three runs of a replay: the program in program order, the same with kernels that leave their operands unchanged
(isolated memory), and the schedule on its own bytes.
"""
