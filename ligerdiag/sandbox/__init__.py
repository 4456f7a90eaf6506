"""Runs a process that reads foreign files instead of ours: it may die, and it may do little else."""
