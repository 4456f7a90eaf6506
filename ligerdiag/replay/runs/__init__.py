"""Runs of one case on numbers: program order, isolated memory, and the schedule on its own bytes."""
