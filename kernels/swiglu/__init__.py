"""SwiGLU whose backward pass overwrites both inputs with their gradients. See README.md; start at `api`."""
