"""Compiles cases (functions with their arguments) in worker processes, for a GPU that need not exist on this machine
because XLA gets its description, and keeps everything that XLA wrote.

`compile_worker`, `lowering/` and most modules of `cases/` run in a worker, which has jax and triton. `compile_service`
runs in the parent process, which has neither.
"""
