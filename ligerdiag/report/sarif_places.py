"""Places as SARIF writes them: URIs relative to the repository's root, regions, instructions."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from ligerdiag.findings import Finding, SourceLine
from ligerdiag.report.case_place import find_case_place
from ligerdiag.report.model import CaseReport
from ligerdiag.report.repository import Repository

type Json = dict[str, Any]

ROOT = "%SRCROOT%"
"""Name of the base that relative URIs start from, as code hosts know it."""


def render_bases(repository: Repository) -> Json:
    """`originalUriBaseIds`: where `ROOT` is on this machine."""
    return {ROOT: {"uri": _render_file_uri(repository.root.rstrip("/") + "/")}}


def find_place(case: CaseReport, source: SourceLine | None, repository: Repository) -> SourceLine | None:
    """Returns the line to point at: the user's, else that of the case, else the file that was analysed; None without
    any."""
    if source is not None and repository.compute_absolute(source.file):
        return source
    return find_case_place(case) or (SourceLine(file=case.artifact, line=0) if case.artifact else None)


def render_physical(place: SourceLine, repository: Repository) -> Json:
    """`physicalLocation`: below the root by a relative URI, elsewhere by an absolute one; a region with a known line."""
    below = "." if place.file == repository.root else repository.find(place.file)
    location: Json = {
        "artifactLocation": {"uri": _quote(below), "uriBaseId": ROOT}
        if below
        else {"uri": _render_file_uri(repository.compute_absolute(place.file))}
    }
    if place.line > 0:
        location["region"] = {"startLine": place.line}
    return location


def render_logical(case: CaseReport, finding: Finding) -> list[Json]:
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
