"""Is the schedule that XLA made of a JAX program still right when a Triton kernel overwrites one of its operands?

import ligerdiag

report = ligerdiag.check(train_step, params, batch, target="h100")
assert report.status is ligerdiag.Status.CLEAN, report.findings
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ligerdiag.model.case import Arg, Case, Draw, size

if TYPE_CHECKING:
    from ligerdiag.api.function import check
    from ligerdiag.errors import LigerdiagError
    from ligerdiag.model.findings import Finding, Severity, Verdict
    from ligerdiag.model.report import CaseReport, Status

__all__ = [
    "Arg",
    "Case",
    "CaseReport",
    "Draw",
    "Finding",
    "LigerdiagError",
    "Severity",
    "Status",
    "Verdict",
    "check",
    "size",
]

_PLACES = {
    "check": "ligerdiag.api.function",
    "LigerdiagError": "ligerdiag.errors",
    "Finding": "ligerdiag.model.findings",
    "Severity": "ligerdiag.model.findings",
    "Verdict": "ligerdiag.model.findings",
    "CaseReport": "ligerdiag.model.report",
    "Status": "ligerdiag.model.report",
}
"""Names that are imported on first use: a worker and a case file need none of them."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module `ligerdiag` has no attribute `{name}`")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
