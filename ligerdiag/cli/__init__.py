"""The command line: options in, one call of `ligerdiag.api`, one renderer, an exit code."""
