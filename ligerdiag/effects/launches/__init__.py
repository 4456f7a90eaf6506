"""Follows a kernel's Triton IR for all programs of one launch at once, to find the bytes that each reads and writes."""
