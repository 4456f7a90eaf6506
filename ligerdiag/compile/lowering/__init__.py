"""Traces, tags, lowers and compiles a case in a worker, and records what its author intends."""
