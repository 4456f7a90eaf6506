"""The runs of one case: program order, program order in isolated memory, and the schedule on its own bytes."""
