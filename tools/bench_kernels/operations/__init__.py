"""Has one file for each operation, with a tuple BENCHMARKS; any file here is found."""
