"""Times the kernels of kernels/ on a GPU: `python -m tools.bench_kernels` (`make bench-kernels`). See `record` for what a
benchmark is, and `operations/` for one file an operation: to add one, add a file with a tuple BENCHMARKS.
"""
