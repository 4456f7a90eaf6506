"""The operations of Triton IR that depend on their operands alone, a family a file."""
