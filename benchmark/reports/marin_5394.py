"""The temporaries of a training step grow from 15 to 54 GiB with an upgrade of JAX."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/marin-community/marin/issues/5394",
    year=2026,
    versions="jax 0.9.2, not 0.8.0; H100",
    kind=Kind.MEMORY_DRIFT,
    reported="a mixture-of-experts step needs 3.6 times the temporary memory after an upgrade",
    unreachable="the report has figures of a whole model and no smaller program; which operation grew is not said",
)
