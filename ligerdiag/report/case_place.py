"""Finds where a file defines a case: messages about the case point there."""

import ast
import os
import warnings
from functools import lru_cache

from ligerdiag.findings import SourceLine
from ligerdiag.report.model import CaseReport
from ligerdiag.report.source_text import load_source_lines

_NAMES = ("CASE", "CASES")


def find_case_place(case: CaseReport) -> SourceLine | None:
    """Returns the line that defines the case; None if no file is known."""
    return SourceLine(file=case.source, line=find_case_line(case.source, case.id)) if case.source else None


def find_case_line(file: str, case_id: str) -> int:
    """1-based line of the call `Case(name=...)` with the case's name, else that of `CASE =` or `CASES =`; 0 when not known.

    Nothing is imported: a name that is computed is not found. file: the user's own, which was given to be checked.
    """
    calls, assignment = _index_file(file)
    return calls.get(case_id.partition("[")[0], assignment)


@lru_cache(maxsize=64)
def _index_file(file: str) -> tuple[dict[str, int], int]:
    """Case name to the line of its first call, and the line of the assignment, 0 without."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(load_source_lines(file, (os.path.dirname(os.path.realpath(file)),))))
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return {}, 0
    calls: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name_of(node.func) == "Case":
            for keyword in node.keywords:
                if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                    name = str(keyword.value.value)
                    calls[name] = min(node.lineno, calls.get(name, node.lineno))
    lines = [
        statement.lineno
        for statement in tree.body
        if isinstance(statement, ast.Assign) and any(_name_of(target) in _NAMES for target in statement.targets)
    ]
    return calls, lines[0] if lines else 0


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
