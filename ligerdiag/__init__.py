"""Checks whether the schedule that XLA made of a JAX program is still right when a Triton kernel overwrites operands.

import ligerdiag

report = ligerdiag.check(train_step, params, batch, target="h100")
assert report.status is ligerdiag.Status.CLEAN, report.findings
"""

import sys
from importlib import import_module

TYPE_CHECKING = False
"""Replaces `typing.TYPE_CHECKING`, because importing `typing` takes longer than importing this file."""

if TYPE_CHECKING:
    from ligerdiag.api.function import check
    from ligerdiag.api.opcheck import opcheck
    from ligerdiag.errors import LigerdiagError
    from ligerdiag.model.case import Arg, Case, Draw, size
    from ligerdiag.model.findings import Finding, Severity, Verdict
    from ligerdiag.model.opcheck_report import OpcheckReport
    from ligerdiag.model.report import CaseReport, Status

__all__ = [
    "Arg",
    "Case",
    "CaseReport",
    "Draw",
    "Finding",
    "LigerdiagError",
    "OpcheckReport",
    "Severity",
    "Status",
    "Verdict",
    "check",
    "opcheck",
    "size",
]

_PLACES = {
    "Arg": "ligerdiag.model.case",
    "Case": "ligerdiag.model.case",
    "Draw": "ligerdiag.model.case",
    "size": "ligerdiag.model.case",
    "check": "ligerdiag.api.function",
    "opcheck": "ligerdiag.api.opcheck",
    "LigerdiagError": "ligerdiag.errors",
    "Finding": "ligerdiag.model.findings",
    "Severity": "ligerdiag.model.findings",
    "Verdict": "ligerdiag.model.findings",
    "OpcheckReport": "ligerdiag.model.opcheck_report",
    "CaseReport": "ligerdiag.model.report",
    "Status": "ligerdiag.model.report",
}
"""Maps each public name to its module, which is imported on first use: a worker needs none of them, and `__main__` must
start before them to handle Ctrl-C during imports.
"""


def _is_own_process() -> bool:
    """Whether this is the command line, which never imports JAX, or a worker, whose output goes to a file."""
    program = sys.argv[0] if sys.argv else ""
    return program == "-m" or program.endswith("/ligerdiag")


if not _is_own_process():
    from ligerdiag.harmless_logs import hide_harmless_logs

    hide_harmless_logs()


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module `ligerdiag` has no attribute `{name}`")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
