"""Transfers the state of the user's modules (their globals, class attributes and objects) from the process that calls
`ligerdiag.check` to the workers, which import these modules anew.
"""
