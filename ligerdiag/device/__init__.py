"""Runs a case on the GPUs of this machine and compares the results with the intended ones (those of the program in
program order) and with those of the replayed schedule.
"""
