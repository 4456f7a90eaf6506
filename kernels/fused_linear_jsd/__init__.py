"""Linear layers and the divergence between them, a chunk of tokens at a time. See README.md; start at `api`."""
