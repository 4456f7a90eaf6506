"""Runs a case on the GPUs of this machine and compares the results with the intended ones, which a run in program order
gives, and with those of the replayed schedule.
"""
