"""Reads files of unknown origin in a sandboxed process, which has given up most of its rights, and whose death harms nothing
else.
"""
