"""A small Llama in plain JAX, optionally with the project's kernels. See README.md; start at `step`."""
