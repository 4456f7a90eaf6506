"""A small Llama in plain JAX, with the project's kernels by a switch. See README.md; start at `step`."""
