"""Follows a kernel's Triton IR for all programs of one launch at once: which bytes each of them reads and writes."""
