"""The operations of Triton IR whose results depend on their operands alone, one family per file."""
