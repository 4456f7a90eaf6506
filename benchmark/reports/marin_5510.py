"""A kernel that does not lower is replaced by plain operations, and only a log says so."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/marin-community/marin/issues/5510",
    year=2026,
    versions="jax 0.9.2, H100",
    kind=Kind.NO_COMPILE,
    reported="a fused cross entropy silently falls back to XLA's operations on an H100",
    unreachable=(
        "the fall-back is a decision of the caller's Python; the program that is compiled is right and has no kernel"
    ),
)
