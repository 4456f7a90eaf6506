"""Gives the new contents of an overwritten array to those that read it: in the statement of a call, in the function of the
call, and in its callers.
"""
