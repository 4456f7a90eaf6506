"""Hand-made bisections, for tests of their output."""

from ligerdiag.model.findings import Verdict
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow

FRESH, STALE, LATENT = Verdict.FRESH, Verdict.STALE, Verdict.LATENT


def make_bisection(**changes: object) -> Bisection:
    fields: dict[str, object] = {
        "case_id": "flce[hidden]",
        "target": "h100",
        "toolchain": "jax-0.11.2",
        "axis": Axis.EDGES,
        "columns": ("bytes",),
        "rows": (
            BisectionRow(
                label="no tie", outputs={"loss": FRESH, "bias": STALE}, word="wrong", replay="DISAGREES", artifact="/a"
            ),
            BisectionRow(
                label="ties 1, 2",
                outputs={"loss": FRESH, "bias": FRESH},
                word="right",
                cells={"bytes": "+4 MiB"},
                replay="agrees",
                evidence=(("tie 1", "`reduce` at train.py:3"), ("tie 2", "`dot` at train.py:4")),
                is_answer=True,
            ),
            BisectionRow(label="  without 1", outputs={"loss": FRESH, "bias": LATENT}, word="latent"),
            BisectionRow(label="  without 2", word="unknown", error="the worker died"),
        ),
        "answers": ("exactly 1 minimal set",),
        "notes": ("not tried: the rest",),
        "trials": 4,
        "compiled": 1,
        "seconds": 2.5,
        **changes,
    }
    return Bisection(**fields)  # type: ignore[arg-type]
