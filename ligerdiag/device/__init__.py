"""Runs a case on the GPUs of this machine and compares the results with program order (the intended result) and with
the replay.
"""
