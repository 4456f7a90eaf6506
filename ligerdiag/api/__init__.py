"""The commands of ligerdiag as functions that take and return data: nothing here prints or knows a terminal."""

from typing import Any

from ligerdiag.api.catalogue import (
    create_toolchain,
    diagnose_toolchain,
    list_cases,
    list_rules,
    list_target_statuses,
    list_toolchains,
)
from ligerdiag.api.checking import check, describe_refusal, list_recordable, render_known_findings, render_record
from ligerdiag.api.comparing import bisect, diff
from ligerdiag.api.inspecting import inspect
from ligerdiag.api.issuing import bisect_subject, describe_issue, make_reduced_check, print_module
from ligerdiag.api.reducing import is_dump, reduce, reduce_dump
from ligerdiag.api.report_comparing import compare, compare_toolchains
from ligerdiag.api.tuning_recorder import RecordedTuning, record_tuning
from ligerdiag.model.report import OnProgress, Progress
from ligerdiag.model.shown import show_with
from ligerdiag.reduce.dump_reduction import write_modules
from ligerdiag.report.allowed.known_findings import load_known
from ligerdiag.report.baseline import load_baseline
from ligerdiag.report.status import conclude
from ligerdiag.rules.registry import get_rule
from ligerdiag.run_options import (
    BisectOptions,
    CheckOptions,
    CompareOptions,
    DiffOptions,
    InspectOptions,
    ReduceOptions,
    TuningOptions,
)
from ligerdiag.toolchains.gpu_targets import list_targets, load_target

__all__ = [
    "BisectOptions",
    "CheckOptions",
    "CompareOptions",
    "DiffOptions",
    "InspectOptions",
    "OnProgress",
    "Progress",
    "RecordedTuning",
    "ReduceOptions",
    "TuningOptions",
    "bisect",
    "bisect_subject",
    "check",
    "compare",
    "compare_toolchains",
    "conclude",
    "create_toolchain",
    "describe_issue",
    "describe_refusal",
    "diagnose_toolchain",
    "diff",
    "get_rule",
    "inspect",
    "is_dump",
    "list_cases",
    "list_recordable",
    "list_rules",
    "list_target_statuses",
    "list_targets",
    "list_toolchains",
    "load_baseline",
    "load_known",
    "load_target",
    "make_reduced_check",
    "print_module",
    "record_tuning",
    "reduce",
    "reduce_dump",
    "render_known_findings",
    "render_record",
    "write_modules",
]


def _render_text(record: Any) -> str:
    from ligerdiag.report.display import render_text  # only who prints a report needs the renderers

    return render_text(record)


def _render_html(record: Any) -> str:
    from ligerdiag.report.display import render_html

    return render_html(record)


show_with(text=_render_text, html=_render_html)
