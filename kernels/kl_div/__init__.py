"""KL divergence whose forward pass leaves the gradient where the student's logits were. See README.md; start at `api`."""
