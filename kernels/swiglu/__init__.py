"""SwiGLU whose backward pass leaves both gradients where its inputs were. See README.md; start at `api`."""
