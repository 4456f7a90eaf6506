"""Runs a case on the GPUs of this machine. Compares the results with the intended ones, which a run in program order gives,
and with the results of the replayed schedule.
"""
