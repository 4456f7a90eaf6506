"""Decides what the verdicts, findings and numbers of a run amount to, and shows that in each output format."""
