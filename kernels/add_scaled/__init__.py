"""The update of a search direction, in place. See README.md; start at `api`."""
