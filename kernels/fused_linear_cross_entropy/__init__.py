"""Linear layer and cross entropy loss in one, chunk by chunk of tokens. See README.md; start at `api`."""
