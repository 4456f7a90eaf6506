"""KL divergence whose forward pass overwrites the student's logits with their gradient. See README.md; start at `api`."""
