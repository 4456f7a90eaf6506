"""A small update in a loop rewrites the whole buffer on the CPU, with the same HLO as a fast one."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/40101",
    year=2026,
    versions="jax 0.11.1, CPU",
    kind=Kind.SILENT_COPY,
    reported="a loop with a small update is 37,000 times slower on the CPU, although the optimized HLO is the same",
    unreachable=(
        "the copy is in the thunks of XLA:CPU, below the HLO, which is the same in the fast and the slow program"
    ),
)
