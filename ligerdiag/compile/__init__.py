"""Compiles cases (functions with their arguments) in worker processes, and keeps everything that XLA writes. The GPU need
not exist on this machine, because XLA gets a description of it.

`compile_worker`, `lowering/` and most modules of `cases/` run in a worker, which has jax and triton. `compile_service`
runs in the parent process, which has neither.
"""
