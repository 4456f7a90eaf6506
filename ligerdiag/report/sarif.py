"""The report as SARIF 2.1.0, for code hosts and editors; docs/formats.md describes what stands where."""

import json
from typing import Any

from ligerdiag.findings import Severity
from ligerdiag.report.json import compute_version
from ligerdiag.report.model import CaseReport, CheckReport
from ligerdiag.report.printable import compute_printable
from ligerdiag.report.repository import Repository
from ligerdiag.report.sarif_places import find_place, render_bases, render_physical
from ligerdiag.report.sarif_results import render_results
from ligerdiag.report.sarif_rules import INTERRUPTED, NOTE, render_notifications, render_rules
from ligerdiag.report.summary import describe_cut
from ligerdiag.report.troubles import TroubleKind, list_troubles

type Json = dict[str, Any]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NO_LOOK = frozenset({TroubleKind.NOT_ANALYSED, TroubleKind.NOT_CHECKED, TroubleKind.NO_NUMBERS})


def render_sarif(
    report: CheckReport,
    *,
    repository: Repository,
    exit_code: int,
    meaning: str = "",
    successful: bool = True,
    version: str = "",
) -> str:
    """Renders one run with every finding and trouble, ASCII only, with a final newline.

    exit_code: the exit code of the process, and its meaning in words. successful: the tool could look at everything
    that was requested, whatever it found. version: ligerdiag's own.
    """
    driver = {
        "name": "ligerdiag",
        "semanticVersion": version or compute_version(),
        "rules": render_rules(),
        "notifications": render_notifications(),
    }
    invocation: Json = {
        "executionSuccessful": successful,
        "exitCode": exit_code,
        **({"exitCodeDescription": meaning} if meaning else {}),
        "toolExecutionNotifications": _render_notifications(report, repository),
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "originalUriBaseIds": render_bases(repository),
        "columnKind": "unicodeCodePoints",
        "results": render_results(report, repository),
        "properties": {
            "toolchain": report.toolchain,
            "versions": dict(report.versions),
            "targets": list(report.targets),
            "interrupted": report.interrupted,
            **({"endedBy": report.ended_by.value} if report.interrupted else {}),
        },
    }
    return json.dumps(_cleaned({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}), indent=1) + "\n"


def _render_notifications(report: CheckReport, repository: Repository) -> list[Json]:
    """Renders messages about the run itself: cases that could not be looked at, a run that was cut short, notes."""
    notifications = [
        _notify(trouble.kind, Severity.ERROR, f"{case.id} on {case.target}: {trouble.message}", case, repository)
        for case in report.cases
        for trouble in list_troubles(case)
        if trouble.kind in _NO_LOOK
    ]
    if report.interrupted:
        notifications.append(_notify(INTERRUPTED, Severity.ERROR, describe_cut(report)))
    return [*notifications, *(_notify(NOTE, Severity.NOTE, note) for note in report.notes)]


def _notify(
    name: str, level: Severity, text: str, case: CaseReport | None = None, repository: Repository | None = None
) -> Json:
    notification: Json = {"descriptor": {"id": str(name)}, "level": level.value, "message": {"text": text}}
    place = None if case is None or repository is None else find_place(case, None, repository)
    if place is not None and repository is not None:
        notification["locations"] = [{"physicalLocation": render_physical(place, repository)}]
    return notification


def _cleaned(value: Any) -> Any:
    """Returns every text without escape sequences and control characters; its lines stay lines."""
    match value:
        case str():
            return "\n".join(compute_printable(line) for line in value.split("\n"))
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_cleaned(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
