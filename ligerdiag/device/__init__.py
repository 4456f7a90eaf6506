"""Runs a case on the GPUs of this machine and compares what they compute."""
