"""The command line: each command parses its options, calls one function of `ligerdiag.api`, renders the result and
exits with a code.
"""
