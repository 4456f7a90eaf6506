"""Parts of a SARIF log: places relative to the repository's root, and what is said of the rules."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from ligerdiag.codec import JsonObject
from ligerdiag.model.findings import Finding, Severity, SourceLine
from ligerdiag.model.report import CaseReport
from ligerdiag.report.case_places import Repository, find_case_place
from ligerdiag.report.terminal.diagnostics import PAGES, TroubleKind
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import Rule

ROOT = "%SRCROOT%"
"""Name of the base that relative URIs start from, as code hosts know it."""


def render_bases(repository: Repository) -> JsonObject:
    """`originalUriBaseIds`: where `ROOT` is on this machine."""
    return {ROOT: {"uri": _render_file_uri(repository.root.rstrip("/") + "/")}}


def find_place(case: CaseReport, source: SourceLine | None, repository: Repository) -> SourceLine | None:
    """Returns the line to point at: the user's, else that of the case, else the file that was analysed; None without
    any."""
    if source is not None and repository.compute_absolute(source.file):
        return source
    return find_case_place(case) or (SourceLine(file=case.artifact, line=0) if case.artifact else None)


def render_physical(place: SourceLine, repository: Repository) -> JsonObject:
    """`physicalLocation`: below the root by a relative URI, elsewhere by an absolute one; a region with a known line."""
    below = "." if place.file == repository.root else repository.find(place.file)
    location: JsonObject = {
        "artifactLocation": {"uri": _quote(below), "uriBaseId": ROOT}
        if below
        else {"uri": _render_file_uri(repository.compute_absolute(place.file))}
    }
    if place.line > 0:
        location["region"] = {"startLine": place.line}
    return location


def render_logical(case: CaseReport, finding: Finding) -> list[JsonObject]:
    """`logicalLocations`: the kernel, and the instructions of the optimized module."""
    within = f"{case.id}@{case.target}"
    kernel = [{"name": finding.kernel, "fullyQualifiedName": f"{within}/{finding.kernel}", "kind": "function"}]
    instructions = [
        {"name": f"%{name}", "fullyQualifiedName": f"{within}/%{name}", "kind": "instruction"}
        for name in finding.instructions
    ]
    return [*(kernel if finding.kernel else []), *instructions]


def compute_stable_name(file: str, repository: Repository) -> str:
    """Returns a file's name that is the same on every machine: its path below the root or below `site-packages`, else
    its name."""
    below = repository.find(file)
    parts: Sequence[str] = PurePosixPath(below or file).parts
    if "site-packages" in parts:
        return "/".join(parts[len(parts) - parts[::-1].index("site-packages") :])
    return below or PurePosixPath(file).name


def _render_file_uri(path: str) -> str:
    return f"file://{_quote(path)}"


def _quote(path: str) -> str:
    return quote(path.encode("utf-8", "surrogatepass"), safe="/")


UNUSED_SUPPRESSION = "unused-suppression"
INTERRUPTED = "interrupted"
NOTE = "note"

_UNUSED_SUMMARY = "a suppression that allows nothing, or that gives no reason"
_UNUSED_HELP = "take it away, or mend it: docs/suppressions.md"

_FIRST = tuple(kind for kind in TroubleKind if kind is not TroubleKind.NOT_CHECKED)
RULE_IDS: Sequence[str] = (*(rule.id for rule in RULES), *_FIRST, UNUSED_SUPPRESSION, TroubleKind.NOT_CHECKED)
"""Ids of everything that a result can be of, a newer one at the end; the position is the result's `ruleIndex`."""


def render_rules() -> list[JsonObject]:
    """`tool.driver.rules`, in the order of `RULE_IDS`."""
    return [
        *(_render_rule(rule) for rule in RULES),
        *(_render_trouble_kind(kind) for kind in _FIRST),
        _render_descriptor(UNUSED_SUPPRESSION, _UNUSED_SUMMARY, _UNUSED_HELP, Severity.WARNING),
        _render_trouble_kind(TroubleKind.NOT_CHECKED),
    ]


def render_notifications() -> list[JsonObject]:
    """Returns `tool.driver.notifications`: messages about the run itself."""
    return [
        *(
            {"id": kind.value, "shortDescription": {"text": PAGES[kind].summary}}
            for kind in (TroubleKind.NOT_ANALYSED, TroubleKind.NOT_CHECKED, TroubleKind.NO_NUMBERS)
        ),
        {"id": INTERRUPTED, "shortDescription": {"text": "the run was cut short, and not every case was done"}},
        {"id": NOTE, "shortDescription": {"text": "what was found and is no case of the report"}},
    ]


def _render_trouble_kind(kind: TroubleKind) -> JsonObject:
    page = PAGES[kind]
    return _render_descriptor(kind, page.summary, page.help, page.severity)


def _render_rule(rule: Rule) -> JsonObject:
    sections = (
        ("What it does", rule.what_it_does),
        ("Why it is a hazard", rule.why),
        ("What to do", rule.what_to_do),
        ("Limits", rule.limits),
    )
    examples = f"Examples: `ligerdiag explain {rule.id}`"
    references = "\n".join(f"- {reference}" for reference in rule.references) or "None."
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": _flow(rule.summary)},
        "fullDescription": {"text": _flow(rule.what_it_does)},
        "help": {
            "text": "\n\n".join((*(f"{heading}: {_flow(text)}" for heading, text in sections if text), examples)),
            "markdown": "\n\n".join(
                (
                    *(f"## {heading}\n\n{text.strip()}" for heading, text in sections if text),
                    f"## References\n\n{references}",
                    examples,
                )
            ),
        },
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _render_descriptor(name: str, summary: str, remedy: str, severity: Severity) -> JsonObject:
    return {
        "id": str(name),
        "shortDescription": {"text": summary},
        "fullDescription": {"text": summary},
        "help": {"text": remedy, "markdown": remedy},
        "defaultConfiguration": {"level": severity.value},
    }


def _flow(text: str) -> str:
    return " ".join(text.split())
