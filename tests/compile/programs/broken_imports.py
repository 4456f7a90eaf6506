"""A worker whose imports fail."""

raise AttributeError("module `jax` lacks what the worker needs")
