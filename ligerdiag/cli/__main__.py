"""`python -m ligerdiag.cli`."""

from ligerdiag.cli.main import main

main()
