"""Jensen-Shannon divergence whose forward pass overwrites the student's logits. See README.md; start at `api`."""
