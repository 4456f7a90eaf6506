"""Runs a case on the GPUs of this machine and compares the results with program order and the replay."""
