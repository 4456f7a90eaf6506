"""Dependence sets of both programs: program order on the one side, schedule order on XLA's buffers on the other."""
