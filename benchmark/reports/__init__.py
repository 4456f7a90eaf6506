"""One file for each public report, named after its project and number; `benchmark.report` says what a file holds."""
