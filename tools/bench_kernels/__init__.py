"""Times the kernels of kernels/ on a GPU: `python -m tools.bench_kernels` (`make bench-kernels`).

`record` defines a benchmark. `operations/` has one file for each operation: to add one, add a file with a tuple
BENCHMARKS.
"""
