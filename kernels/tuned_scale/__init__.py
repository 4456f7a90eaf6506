"""A kernel with several configurations that overwrites its operand."""
