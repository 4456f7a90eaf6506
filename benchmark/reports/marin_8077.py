"""The schedule of the latency-hiding scheduler corrupts a backward pass around a ragged all-to-all."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/marin-community/marin/issues/8077",
    year=2026,
    versions="jax 0.11, GB200",
    kind=Kind.OVERLAP,
    reported=(
        "with the latency-hiding scheduler the first backward pass gives NaN: an output in symmetric memory "
        "is reused too early"
    ),
    unreachable=(
        "peers write the memory of a symmetric window, which no instruction of the schedule of one device shows"
    ),
)
