"""Computes the dependence sets of both programs: of the author's program in program order, and of the schedule on XLA's
buffers. A dependence set says on which hidden writes a value depends.
"""
