"""Updates a search direction in place. See README.md; start at `api`."""
