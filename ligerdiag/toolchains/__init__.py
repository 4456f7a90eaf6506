"""Toolchains: pinned versions of jax, jax-triton and triton, their environments, and the GPUs that they compile for."""
