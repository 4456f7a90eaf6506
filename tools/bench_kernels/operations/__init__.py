"""One file an operation, each with a tuple BENCHMARKS. A file is found by being here."""
