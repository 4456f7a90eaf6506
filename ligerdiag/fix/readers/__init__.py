"""Finds the readers of an array after a kernel has overwritten it: in the function of the call, and in the callers of that
function.
"""
