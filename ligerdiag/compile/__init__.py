"""Compiles cases for a described GPU in worker processes and keeps everything that XLA wrote.

`compile_worker`, `lowering/` and most modules of `cases/` run in a worker, which has jax and triton. `compile_service`
runs in the parent process, which has neither.
"""
