"""Compiles cases for a described GPU in worker processes, and keeps what the compiler left behind.

Files that run in a worker import jax and triton; the others, the ones that `service` calls, never do:

- worker side: worker, worker_loop, worker_template, worker_faults, settings, draws, case_loader, live_case, rebuild, mesh,
  lowering, tags, kernel_calls, call_generations, names, compile_job, module_id, same_storage, readers, ties
- both sides: job, fields, artifacts, artifact_store, function_file, reader, variation
- parent side: service, function_pickler, array_arguments, importable, bound, selectors, pool, worker_starts,
  worker_process, cache, target, toolchain
"""
