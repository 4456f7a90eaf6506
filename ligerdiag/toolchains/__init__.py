"""Toolchains: the versions of jax, jax-triton and triton that compile, their environments, and the GPUs they compile
for."""
