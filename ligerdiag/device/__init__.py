"""Runs a case on the GPUs of this machine and compares the results with two others: the intended results, which are
the results of the program in program order, and the results of the replayed schedule.
"""
