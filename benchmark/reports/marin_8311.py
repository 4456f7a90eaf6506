"""A fused transport between GPUs trains only if dynamic-slice fusion is off."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/marin-community/marin/issues/8311",
    year=2026,
    versions="jax 0.11, GB200",
    kind=Kind.SHARED_BYTES,
    reported="a Mosaic GPU transport works across nodes only without dynamic-slice fusion",
    unreachable=(
        "the registration of collective memory fails at run time, on several nodes; openxla/xla#47461 is its "
        "reduced form"
    ),
)
