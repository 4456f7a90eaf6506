"""Cases: the parent process selects them and pickles live functions; a worker loads and normalizes them, and builds
their arguments.
"""
