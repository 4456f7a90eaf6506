"""Cross entropy loss; the kernel overwrites the logits with their gradient. See README.md; start at `api`."""
