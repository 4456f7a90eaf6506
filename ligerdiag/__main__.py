"""`python -m ligerdiag`: the command where its script is not on the path."""

from ligerdiag.cli.main import main

main()
