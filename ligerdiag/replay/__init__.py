"""Runs HLO on numbers, on the CPU: the program as written, and the schedule on its own bytes."""
