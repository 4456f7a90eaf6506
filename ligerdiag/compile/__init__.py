"""Compiles cases for a described GPU in worker processes and keeps everything that XLA wrote.

`compile_worker` and `lowering/` run in a worker, with jax and triton; so do most modules of `cases/`. `compile_service`
runs in the parent and imports neither.
"""
