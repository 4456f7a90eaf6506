"""Compiles cases for a described GPU in worker processes, and keeps what the compiler left behind.

`worker`, `lowering/` and what they import of `cases/` run in a worker, with jax and triton. What `service` imports runs
without them, in the process that asks.
"""
