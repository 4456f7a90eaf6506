"""Linear layers and the divergence between them, chunk by chunk of tokens. See README.md; start at `api`."""
