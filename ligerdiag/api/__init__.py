"""The commands as functions of data: nothing here prints or knows a terminal."""

from ligerdiag.api.bisecting import bisect
from ligerdiag.api.catalogue import list_cases, list_rules
from ligerdiag.api.checking import check, describe_refusal
from ligerdiag.api.conclusion import conclude
from ligerdiag.api.diffing import DiffOptions, diff
from ligerdiag.api.inspecting import inspect
from ligerdiag.api.options import CheckOptions, InspectOptions
from ligerdiag.api.recording import list_recordable, render_record
from ligerdiag.api.toolchains import create_toolchain, diagnose_toolchain, list_toolchains
from ligerdiag.baseline import load_baseline
from ligerdiag.bisect.options import BisectOptions
from ligerdiag.compile.target import list_targets
from ligerdiag.hazards.registry import get_rule
from ligerdiag.report.model import OnProgress, Progress

__all__ = [
    "BisectOptions",
    "CheckOptions",
    "DiffOptions",
    "InspectOptions",
    "OnProgress",
    "Progress",
    "bisect",
    "check",
    "conclude",
    "create_toolchain",
    "describe_refusal",
    "diagnose_toolchain",
    "diff",
    "get_rule",
    "inspect",
    "list_cases",
    "list_recordable",
    "list_rules",
    "list_targets",
    "list_toolchains",
    "load_baseline",
    "render_record",
]
