"""Toolchains: which jax, jax-triton and triton compile, in what environment, and for which GPUs."""
