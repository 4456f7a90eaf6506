"""Computes the dependence sets of both programs: the program in program order, the schedule on XLA's buffers."""
