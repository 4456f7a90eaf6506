"""Renders the report as SARIF 2.1.0, a JSON format that code hosts read. It has one result for each cause and trouble of
each case on each target. A cause is a finding, or several findings that come from one mistake. A trouble is a problem of
a case that is no finding: for example, the case could not be analysed.

A result that does not count, because it is allowed or the case expects it, has a suppression with its reason. All other
results have an empty list of suppressions: SARIF wants the list in all results of a run or in none. Each result has a
fingerprint `ligerdiag/v1`, made of properties that stay the same when the code around the result moves or XLA renumbers
its instructions: rule, kernel, operand, case, target, source file and function. It ends with `:1`; of results of a case
that are equal in all of these, the second ends with `:2`, and so on. Every result has a place, because code hosts reject
a file in which one has none.

No name in a message can make a link. SARIF turns `[words](target)` into a link in any message, also in viewers that
ignore its escapes; so a space is put between brackets and parentheses that would make a link.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from ligerdiag.codec import JsonObject
from ligerdiag.model.findings import Finding, Severity, SourceLine, Suppression, SuppressionKind
from ligerdiag.model.report import CaseReport, CheckReport, UnusedSuppression
from ligerdiag.package_metadata import compute_page_address, compute_version
from ligerdiag.report.case_places import Repository, find_case_place
from ligerdiag.report.causes import compute_causes, describe_origin, list_calls, list_reads, list_rules
from ligerdiag.report.rule_page import compute_rule_address
from ligerdiag.report.status import compute_excuse
from ligerdiag.report.terminal.diagnostics import PAGES, Trouble, TroubleKind, list_troubles
from ligerdiag.report.terminal.finding_text import render_finding_plain, render_trouble_plain
from ligerdiag.report.terminal.summary import describe_cut
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import Rule
from ligerdiag.source_text import compute_near, compute_place, parse_place
from ligerdiag.text import compute_printable, join_lines

ROOT = "%SRCROOT%"
"""Name of the base of relative URIs in SARIF, as code hosts know it: the root of the repository."""


def render_bases(repository: Repository) -> JsonObject:
    """Returns `originalUriBaseIds` of SARIF, which says which folder of this machine is called `ROOT`."""
    return {ROOT: {"uri": _render_file_uri(repository.root.rstrip("/") + "/")}}


def find_place(case: CaseReport, source: SourceLine | None, repository: Repository) -> SourceLine | None:
    """Returns the line of source that a result points at.

    It is `source`; if that is None, the line that defines the case; if that is unknown, the analysed file. None if there
    is no such file.
    """
    if source is not None and repository.compute_absolute(source.file):
        return source
    return find_case_place(case) or (SourceLine(file=case.artifact, line=0) if case.artifact else None)


def render_physical(place: SourceLine, repository: Repository) -> JsonObject:
    """Returns `physicalLocation` of SARIF: the URI of a file, and a region if the line is known.

    The URI is relative to the root if the file is below it.
    """
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
    """Returns `logicalLocations` of SARIF: the names of the kernel and of the instructions of the optimized module."""
    within = f"{case.id}@{case.target}"
    kernel = [{"name": finding.kernel, "fullyQualifiedName": f"{within}/{finding.kernel}", "kind": "function"}]
    instructions = [
        {"name": f"%{name}", "fullyQualifiedName": f"{within}/%{name}", "kind": "instruction"}
        for name in finding.instructions
    ]
    return [*(kernel if finding.kernel else []), *instructions]


def compute_stable_name(file: str, repository: Repository) -> str:
    """Returns a name of the file that is equal on all machines.

    It is the path below the root or below `site-packages`, or the file name alone for any other file.
    """
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
_UNUSED_HELP = "remove or correct it: docs/suppressions.md"

_FIRST = tuple(kind for kind in TroubleKind if kind is not TroubleKind.NOT_CHECKED)
RULE_IDS: Sequence[str] = (*(rule.id for rule in RULES), *_FIRST, UNUSED_SUPPRESSION, TroubleKind.NOT_CHECKED)
"""Ids of rules and troubles, new ones last. `ruleIndex` of a result is the position of its id here."""


def render_rules() -> list[JsonObject]:
    """Returns `tool.driver.rules` of SARIF: a description of each rule and of each kind of trouble, as in `RULE_IDS`."""
    return [
        *(_render_rule(rule) for rule in RULES),
        *(_render_trouble_kind(kind) for kind in _FIRST),
        _render_descriptor(UNUSED_SUPPRESSION, _UNUSED_SUMMARY, _UNUSED_HELP, Severity.WARNING),
        _render_trouble_kind(TroubleKind.NOT_CHECKED),
    ]


def render_notifications() -> list[JsonObject]:
    """Returns `tool.driver.notifications` of SARIF: a description of each kind of message about the run itself."""
    return [
        *(
            {"id": kind.value, "shortDescription": {"text": PAGES[kind].summary}}
            for kind in (TroubleKind.NOT_ANALYSED, TroubleKind.NOT_CHECKED, TroubleKind.NO_NUMBERS)
        ),
        {"id": INTERRUPTED, "shortDescription": {"text": "the run was ended early, before every case was done"}},
        {"id": NOTE, "shortDescription": {"text": "a note about the run, and not about a case of the report"}},
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
        **({"helpUri": address} if (address := compute_rule_address(rule)) else {}),
        "shortDescription": {"text": join_lines(rule.summary)},
        "fullDescription": {"text": join_lines(rule.what_it_does)},
        "help": {
            "text": "\n\n".join((*(f"{heading}: {join_lines(text)}" for heading, text in sections if text), examples)),
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


FINGERPRINT = "ligerdiag/v1"


def render_results(report: CheckReport, repository: Repository) -> list[JsonObject]:
    """Returns `results` of SARIF: one for each cause and trouble of each case, and one for each unused suppression."""
    results = [result for case in report.cases for result in _render_case(case, repository)]
    return [*results, *(_render_unused(one, repository) for one in report.unused_suppressions)]


def _render_case(case: CaseReport, repository: Repository) -> Iterator[JsonObject]:
    seen: Counter[str] = Counter()
    prints: dict[Finding, str] = {}
    for finding in compute_causes(case.findings, tuple(case.outputs), case.source_roots):
        result = _render_finding(case, finding, repository)
        function = "" if finding.source is None else finding.source.function
        result = _with_fingerprint(
            result, seen, (finding.kernel, finding.operand, *_identify(case, finding, repository), function)
        )
        prints[finding] = result["partialFingerprints"][FINGERPRINT]
        if finding.follows_from is not None:
            result["properties"]["followsFrom"] = prints[finding.follows_from]
        yield result
    for trouble in list_troubles(case):
        result = _render_trouble(case, trouble, repository)
        yield _with_fingerprint(result, seen, ("", None, *_identify(case, None, repository), trouble.outputs))


def _render_finding(case: CaseReport, finding: Finding, repository: Repository) -> JsonObject:
    lines = render_finding_plain(finding, (f"{case.id} on {case.target}",))
    place = find_place(case, finding.source, repository)
    result: JsonObject = {
        **_head(finding.rule, finding.severity, lines),
        "locations": _render_locations(place, render_logical(case, finding), repository),
    }
    related = _render_related(case, finding, place, repository)
    if related:
        result["relatedLocations"] = related
    excuse = compute_excuse(case, finding)
    return {
        **result,
        "suppressions": [_render_suppression(finding.suppressed, excuse, repository)] if excuse else [],
        "properties": {
            **_describe_case(case),
            "rules": list(list_rules(finding)),
            "calls": len(list_calls(finding)),
            "outputs": list(finding.outputs),
            "kernel": finding.kernel,
            "operand": finding.operand,
            "evidence": [{"label": label, "text": text} for label, text in finding.evidence],
            "help": finding.help,
        },
    }


def _render_related(
    case: CaseReport, finding: Finding, place: SourceLine | None, repository: Repository
) -> list[JsonObject]:
    """Returns `relatedLocations` of SARIF: the stores of the kernel, the reads, the call sites, the finding that this one
    follows from, and the definition of the case.
    """
    reads = [
        (line, "read in the backward pass of this line" if in_backward else "read here")
        for line, in_backward in list_reads(finding)
        if line is not None
    ]
    found = [(store, "the kernel writes the operand here") for store in finding.call.stores] if finding.call else []
    found += reads
    if finding.call is not None and len(list_calls(finding)) == 1:
        found += [(frame, f"from {compute_place(frame)}") for frame in finding.call.callers]
    elif finding.call is None:
        texts = [text for label, text in finding.evidence if label == "from"]
        found += [(parse_place(text.rpartition(" in ")[0]), f"from {compute_near(text)}") for text in texts]
    places = [(line, text) for line, text in found if repository.compute_absolute(line.file) and line != place]
    origin = None if finding.follows_from is None else finding.follows_from.source
    if origin is not None and repository.compute_absolute(origin.file):
        places.append((origin, f"follows from {describe_origin(finding)}"))
    defined = find_case_place(case)
    if defined is not None and defined != place:
        places.append((defined, f"case {case.id}"))
    return [
        {"id": number, "physicalLocation": render_physical(line, repository), "message": {"text": text}}
        for number, (line, text) in enumerate(places, start=1)
    ]


def _render_trouble(case: CaseReport, trouble: Trouble, repository: Repository) -> JsonObject:
    lines = render_trouble_plain(trouble, (f"{case.id} on {case.target}",))
    return {
        **_head(trouble.kind, trouble.severity, lines),
        "locations": _render_locations(find_place(case, None, repository), [], repository),
        "suppressions": [],
        "properties": {
            **_describe_case(case),
            "outputs": list(trouble.outputs),
            "evidence": [{"label": label, "text": text} for label, text in trouble.evidence],
        },
    }


def _render_unused(one: UnusedSuppression, repository: Repository) -> JsonObject:
    is_comment = one.kind is SuppressionKind.IN_CODE
    place = parse_place(one.where) if is_comment else SourceLine(file=one.where.partition(" [[")[0], line=0)
    words = f"suppression {one.where}: `{f'allow {one.rule}'.rstrip()}` {one.message}"
    result = {
        **_head(UNUSED_SUPPRESSION, Severity.WARNING, (words,)),
        "locations": _render_locations(place, [], repository),
        "suppressions": [],
        "properties": {"kind": one.kind.value, "rule": one.rule, "reason": one.reason, "where": one.where},
    }
    return _with_fingerprint(result, Counter(), (one.rule, one.reason, compute_stable_name(place.file, repository)))


def _head(rule: str, severity: Severity, lines: tuple[str, ...]) -> JsonObject:
    return {
        "ruleId": str(rule),
        "ruleIndex": RULE_IDS.index(rule),
        "level": severity.value,
        "message": {"text": "\n".join(lines)},
    }


def _render_locations(place: SourceLine | None, logical: list[JsonObject], repository: Repository) -> list[JsonObject]:
    """Returns `locations` of SARIF with one place: the given one, or the root of the repository for None."""
    physical = render_physical(place or SourceLine(file=repository.root, line=0), repository)
    return [{"physicalLocation": physical, **({"logicalLocations": logical} if logical else {})}]


def _render_suppression(suppressed: Suppression | None, justification: str, repository: Repository) -> JsonObject:
    suppression: JsonObject = {"kind": "external", "status": "accepted", "justification": justification}
    if suppressed is not None and suppressed.kind is SuppressionKind.IN_CODE:
        suppression["kind"] = "inSource"
        suppression["location"] = {"physicalLocation": render_physical(parse_place(suppressed.where), repository)}
    return suppression


def _describe_case(case: CaseReport) -> JsonObject:
    return {
        "case": case.id,
        "target": case.target,
        "toolchain": case.toolchain,
        "status": case.status.value,
        "verdicts": {name: verdict.value for name, verdict in case.outputs.items()},
    }


def _identify(case: CaseReport, finding: Finding | None, repository: Repository) -> tuple[str, ...]:
    file = case.source if finding is None or finding.source is None else finding.source.file
    return case.id, case.target, compute_stable_name(file, repository)


def _with_fingerprint(result: JsonObject, seen: Counter[str], parts: tuple[object, ...]) -> JsonObject:
    text = json.dumps([result["ruleId"], *parts])
    digest = sha256(text.encode()).hexdigest()[:32]
    seen[digest] += 1
    return {**result, "partialFingerprints": {FINGERPRINT: f"{digest}:{seen[digest]}"}}


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NO_LOOK = frozenset({TroubleKind.NOT_ANALYSED, TroubleKind.NOT_CHECKED, TroubleKind.NO_NUMBERS})


def render_sarif(
    report: CheckReport,
    *,
    repository: Repository,
    exit_code: int,
    meaning: str = "",
    successful: bool = True,
) -> str:
    """Returns the report as SARIF with one run: ASCII only, with a final newline.

    exit_code: exit code of the process. meaning: the exit code in words. successful: whether everything could be
    analysed, even if there are findings.
    """
    driver = {
        "name": "ligerdiag",
        "semanticVersion": compute_version(),
        **({"informationUri": site} if (site := compute_page_address("README.md")) else {}),
        "rules": render_rules(),
        "notifications": render_notifications(),
    }
    invocation: JsonObject = {
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


def _render_notifications(report: CheckReport, repository: Repository) -> list[JsonObject]:
    """Returns the messages about the run itself: cases that could not be analysed, an early end of the run, notes."""
    notifications = [
        _notify(trouble.kind, Severity.ERROR, f"{case.id} on {case.target}: {trouble.message}", case, repository)
        for case in report.cases
        for trouble in list_troubles(case)
        if trouble.kind in _NO_LOOK
    ]
    if report.interrupted:
        notifications.append(_notify(INTERRUPTED, Severity.ERROR, describe_cut(report)))
    return [*notifications, *(_notify(NOTE, Severity.NOTE, note) for note in report.remarks)]


def _notify(
    name: str, level: Severity, text: str, case: CaseReport | None = None, repository: Repository | None = None
) -> JsonObject:
    notification: JsonObject = {"descriptor": {"id": str(name)}, "level": level.value, "message": {"text": text}}
    place = None if case is None or repository is None else find_place(case, None, repository)
    if place is not None and repository is not None:
        notification["locations"] = [{"physicalLocation": render_physical(place, repository)}]
    return notification


def _cleaned(value: Any) -> Any:
    """Returns the JSON value without escape sequences, control characters and links in its texts; line breaks stay."""
    match value:
        case str():
            return "\n".join(compute_printable(line) for line in value.split("\n")).replace("](", "] (")
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_cleaned(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
