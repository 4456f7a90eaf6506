"""With a slightly larger argument a program asks for 5 GB instead of 500 kB."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/17124",
    year=2024,
    versions="jax 0.4.16 and later, not 0.4.14",
    kind=Kind.MEMORY_DRIFT,
    reported="a program allocates 5 GB since jax 0.4.16 if an array has 1600 rows instead of 1590",
    unreachable=(
        "the report shows modules of XLA, and refers to another one for the program; jax 0.4.14, the last version that was "
        "right, is older than any that compiles here"
    ),
)
