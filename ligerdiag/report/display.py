"""Renders the records that ligerdiag's functions return, as `print` and a notebook show them (see `model.shown`)."""

from dataclasses import replace

from markupsafe import escape

from ligerdiag.model.findings import ReplayState
from ligerdiag.model.opcheck_report import OpcheckReport
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.compared.report_comparison import ReportComparison
from ligerdiag.report.comparisons import Bisection, DifferenceReport
from ligerdiag.report.html.fragment import render_fragment
from ligerdiag.report.terminal.full_report import (
    render_bisections,
    render_difference_report,
    render_report_comparison_text,
    render_terminal,
)
from ligerdiag.report.terminal.opcheck_text import render_opcheck

type Record = CaseReport | CheckReport | ReportComparison | DifferenceReport | Bisection | OpcheckReport


def render_text(record: Record) -> str:
    """Returns the record as the terminal shows it: without colours, lines not wrapped, no newline at the end."""
    match record:
        case CaseReport():
            text = _render_with_basis(_make_report(record))
        case CheckReport():
            text = _render_with_basis(record)
        case ReportComparison():
            text = render_report_comparison_text(record)
        case DifferenceReport():
            text = render_difference_report(record)
        case Bisection():
            text = render_bisections((record,))
        case OpcheckReport():
            text = render_opcheck(record)
    return text.rstrip("\n")


def _render_with_basis(report: CheckReport) -> str:
    """Returns the report as the terminal shows it, and a line on what its verdicts rest on: the analysis of the schedule
    alone, or numbers as well.
    """
    judged = [case for case in report.cases if case.outputs]
    if not judged:
        return render_terminal(report)
    replayed = sum(case.replay is not None and case.replay.state is ReplayState.DONE for case in judged)
    opaque = [case.replay.opaque for case in judged if case.replay is not None and case.replay.opaque is not None]
    covered = sum(one.state is ReplayState.DONE for one in opaque)
    ran = sum(case.device is not None and bool(case.device.outputs) for case in judged)
    counted = ((replayed, "replayed"), (covered, "replayed with opaque functions"), (ran, "run on a device"))
    others = [f"{number} {words}" for number, words in counted if number]
    basis = f"and numbers ({', '.join(others)}, of {len(judged)})" if others else "alone, without numbers"
    return f"{render_terminal(report)}verdicts rest on: analysis of the schedule {basis}\n"


def render_html(record: Record) -> str:
    """Returns the record as HTML without scripts, for a notebook.

    A report, an output or a finding has a layout of its own. Any other record appears as its text.
    """
    match record:
        case CaseReport():
            return render_fragment(_make_report(record))
        case CheckReport():
            return render_fragment(record)
        case _:
            return f"<pre>{escape(render_text(record))}</pre>\n"


def _make_report(case: CaseReport) -> CheckReport:
    """Returns a report of this case alone, with what is known about the run that made it."""
    run = case.run or CheckReport(cases=(), targets=(), toolchain=case.toolchain)
    return replace(run, cases=(case,), targets=(case.target,))
