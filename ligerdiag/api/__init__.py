"""What the commands do, as functions of data: nothing here prints, nothing here knows a terminal."""

from ligerdiag.api.catalogue import list_cases, list_rules
from ligerdiag.api.checking import check
from ligerdiag.api.conclusion import conclude
from ligerdiag.api.inspecting import inspect
from ligerdiag.api.options import CheckOptions, InspectOptions, OnProgress
from ligerdiag.api.toolchains import create_toolchain, diagnose_toolchain, list_toolchains
from ligerdiag.compile.target import list_targets
from ligerdiag.hazards.registry import get_rule
from ligerdiag.report.model import Progress

__all__ = [
    "CheckOptions",
    "InspectOptions",
    "OnProgress",
    "Progress",
    "check",
    "conclude",
    "create_toolchain",
    "diagnose_toolchain",
    "get_rule",
    "inspect",
    "list_cases",
    "list_rules",
    "list_targets",
    "list_toolchains",
]
