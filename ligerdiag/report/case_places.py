"""Finds the file of a case: its path in the repository, as a code host knows it, and the line that defines the case."""

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.report import CaseReport
from ligerdiag.source_text import parse_source, read_last_name

WORKSPACE = "GITHUB_WORKSPACE"
"""Environment variable in which a GitHub workflow gives the directory of its checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The two directories to which paths in a report are relative: the checkout, and the working directory of the run."""

    root: str
    """Absolute path of the checkout."""
    current: str
    """Absolute path of the working directory; relative paths start there."""

    def find(self, file: str) -> str:
        """Returns the path of `file` relative to the checkout, with `/` between folders.

        Empty if the file is outside of the checkout, or if the text is not a path, such as `<string>`. Follows symbolic
        links only if the path as written is outside.
        """
        path = self.compute_absolute(file)
        if not path:
            return ""
        below = _compute_below(path, self.root)
        if below:
            return below
        try:
            return _compute_below(os.path.realpath(path), os.path.realpath(self.root))
        except (OSError, ValueError):
            return ""

    def compute_absolute(self, file: str) -> str:
        """Returns the absolute path of `file`; empty if the text is not a path, such as `<string>`."""
        if not file or file.startswith("<") or "\0" in file:
            return ""
        return os.path.normpath(os.path.join(self.current, file))


def find_repository(environ: Mapping[str, str] = os.environ) -> Repository:
    """Returns the repository of this run.

    Its root is the checkout of the GitHub workflow, or the working directory if no workflow runs.
    """
    current = str(Path.cwd())
    workspace = environ.get(WORKSPACE, "")
    return Repository(root=os.path.abspath(workspace) if os.path.isdir(workspace) else current, current=current)


def _compute_below(path: str, root: str) -> str:
    """Returns `path` relative to the folder `root`; empty if the path is not below that folder."""
    start = root.rstrip(os.sep) + os.sep
    return path.removeprefix(start).replace(os.sep, "/") if path.startswith(start) else ""


_NAMES = ("CASE", "CASES")


def find_case_place(case: CaseReport) -> SourceLine | None:
    """Returns the source line that defines the case; None if the case has no known file."""
    return SourceLine(file=case.source, line=find_case_line(case.source, case.id)) if case.source else None


def find_case_line(file: str, case_id: str) -> int:
    """Returns the 1-based line of the call `Case(name=...)` that defines the case.

    If there is no such call, returns the line of the assignment to `CASE` or `CASES`, or 0 if the file has neither. The
    file is parsed and not imported, so a name that is computed is not found. file: path of the user's case file.
    """
    try:
        tree = parse_source(file, (os.path.dirname(os.path.realpath(file)),))
    except (OSError, ValueError):
        return 0
    calls, assignment = ({}, 0) if tree is None else _index_tree(tree)
    return calls.get(case_id.partition("[")[0], assignment)


@lru_cache(maxsize=64)
def _index_tree(tree: ast.Module) -> tuple[dict[str, int], int]:
    """Returns the line of the first `Case(...)` call for each case name, and the line of the assignment to `CASE` or
    `CASES` (0 if there is no such assignment).
    """
    calls: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and read_last_name(node.func) == "Case":
            for keyword in node.keywords:
                if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                    name = str(keyword.value.value)
                    calls[name] = min(node.lineno, calls.get(name, node.lineno))
    lines = [
        statement.lineno
        for statement in tree.body
        if isinstance(statement, ast.Assign) and any(read_last_name(target) in _NAMES for target in statement.targets)
    ]
    return calls, lines[0] if lines else 0
