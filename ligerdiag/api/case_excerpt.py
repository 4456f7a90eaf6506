"""Collects the parts of a project that a case runs: its function, the functions and kernels that this calls, and their
imports.

A bug report shows these parts if the whole file is long, or imports other files of its project. The functions are those
in which the finding has a line. From there each name is followed to its definition, also in other files of the project.
"""

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.model.findings import Finding, SourceLine
from ligerdiag.report.issue import ProgramPart
from ligerdiag.source_text import is_below, load_source_lines, parse_source

_MOST_CASE_LINES = 20
"""Greatest length, in lines, of a case's declaration that is shown."""
_MOST_STATEMENTS = 200
"""Greatest number of definitions that are followed."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Module:
    path: str
    tree: ast.Module
    lines: Sequence[str]
    shown: dict[int, ast.stmt] = field(default_factory=dict[int, ast.stmt])
    """The statements to show, by their first line."""


def collect_excerpt(finding: Finding, path: Path, case_id: str, source_roots: Sequence[str]) -> tuple[ProgramPart, ...]:
    """Returns the parts of the project's files that a case runs, or () if a function of the case is not found.

    The part of the file `path`, which declares the case, comes first.
    """
    collector = _Collector(tuple(source_roots))
    main = os.path.realpath(path)
    lines = [line for one in (finding, *finding.parts) for line in _list_lines(one)]
    for line in lines:
        collector.add_function(line)
    declared = collector.add_case(main, case_id)
    if not collector.has_function or not (declared or any(os.path.realpath(one.file) == main for one in lines)):
        return ()
    collector.follow_names()
    parts = collector.render()
    return tuple(sorted(parts, key=lambda one: one.name != name_program(path, source_roots)))


def name_program(path: Path, source_roots: Sequence[str]) -> str:
    """Returns the path of a file relative to the current folder or to the root of its project.

    If the file is below neither of them, returns its name alone.
    """
    real = os.path.realpath(path)
    for folder in (os.getcwd(), *sorted(source_roots, key=len)):
        if is_below(real, (os.path.realpath(folder),)):
            return os.path.relpath(real, os.path.realpath(folder))
    return path.name


def _list_lines(finding: Finding) -> Iterator[SourceLine]:
    call, reader = finding.call, finding.reader
    found = [finding.source]
    if call is not None:
        found += [call.line, *call.stores, *call.callers]
    if reader is not None:
        found.append(reader.line)
    yield from (one for one in found if one is not None and one.line > 0)


class _Collector:
    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._modules: dict[str, _Module | None] = {}
        self._pending: list[tuple[_Module, ast.stmt | ast.expr]] = []
        self._case: tuple[_Module, str] | None = None
        """The call of `Case` that is one of several in its statement, and its file."""
        self.has_function = False

    def add_function(self, line: SourceLine) -> None:
        """Adds the top-level function or class around a line."""
        module = self._load(line.file)
        if module is None:
            return
        for one in module.tree.body:
            if isinstance(one, ast.FunctionDef | ast.ClassDef) and _find_first(one) <= line.line <= _find_last(one):
                self._add(module, one)
                self.has_function = True

    def add_case(self, path: str, case_id: str) -> bool:
        """Adds the source of the `Case(...)` call that declares the case, if it is literal and short.

        Returns whether the call is found.
        """
        module = self._load(path)
        name = case_id.partition("[")[0]
        for statement in () if module is None else module.tree.body:
            calls = [one for one in ast.walk(statement) if isinstance(one, ast.Call) and _get_name(one.func) == "Case"]
            for one in calls:
                given = next((key.value for key in one.keywords if key.arg == "name"), None)
                if module is None or not isinstance(given, ast.Constant) or given.value != name:
                    continue
                if _find_last(one) - one.lineno >= _MOST_CASE_LINES:
                    return False
                if len(calls) == 1 and isinstance(statement, ast.Assign):
                    self._add(module, statement)
                else:
                    self._case = module, ast.unparse(one)
                    self._pending.append((module, one))
                self.has_function = True
                return True
        return False

    def follow_names(self) -> None:
        """Adds the definition of each name that an added statement uses. Names without a definition get their import."""
        for _ in range(_MOST_STATEMENTS):
            if not self._pending:
                return
            module, statement = self._pending.pop()
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    self._follow(module, node.id)
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    target = self._find_imported_module(module, node.value.id)
                    if target is not None:
                        self._follow(target, node.attr)

    def render(self) -> list[ProgramPart]:
        parts: list[ProgramPart] = []
        for module in self._modules.values():
            case = self._case[1] if self._case is not None and self._case[0] is module else ""
            if module is None or not (
                case or any(not isinstance(one, ast.ImportFrom) for one in module.shown.values())
            ):
                continue  # a file that only passes names on
            lines: list[str] = []
            last = 0
            for first in sorted(module.shown):
                if lines and first > last + 1:
                    lines += [""] * (1 if _is_line(module.shown[first]) else 2)
                last = _find_last(module.shown[first])
                lines += module.lines[first - 1 : last]
            lines += ["", "", case] if case else []
            parts.append(ProgramPart(name=name_program(Path(module.path), self._roots), text="\n".join([*lines, ""])))
        return parts

    def _follow(self, module: _Module, name: str) -> None:
        for one in module.tree.body:
            if isinstance(one, ast.ImportFrom):
                for alias in one.names:
                    if (alias.asname or alias.name) == name:
                        self._add(module, one)
                        target = self._find_module(module, one.module or "", one.level)
                        if target is not None:
                            self._follow(target, alias.name)
            elif isinstance(one, ast.Import):
                if any((alias.asname or alias.name.partition(".")[0]) == name for alias in one.names):
                    self._add(module, one)
            elif name in _list_defined(one):
                self._add(module, one)

    def _add(self, module: _Module, statement: ast.stmt) -> None:
        first = _find_first(statement)
        while first > 1 and module.lines[first - 2].startswith("#"):
            first -= 1
        if first not in module.shown:
            module.shown[first] = statement
            self._pending.append((module, statement))

    def _find_imported_module(self, module: _Module, name: str) -> _Module | None:
        for one in module.tree.body:
            if isinstance(one, ast.Import):
                for alias in one.names:
                    if (alias.asname or alias.name) == name:
                        return self._find_module(module, alias.name, 0)
            elif isinstance(one, ast.ImportFrom):
                for alias in one.names:
                    if (alias.asname or alias.name) == name:
                        return self._find_module(module, f"{one.module or ''}.{alias.name}".lstrip("."), one.level)
        return None

    def _find_module(self, module: _Module, dotted: str, level: int) -> _Module | None:
        """Returns the module of the project that an import names; None if it is not one of the project."""
        folder = Path(module.path).parent
        if level:
            folders = [folder.parents[level - 2]] if level > 1 else [folder]
        else:
            folders = [one for one in (folder, *folder.parents) if is_below(str(one), self._roots)]
        for one in folders:
            path = one.joinpath(*dotted.split(".")) if dotted else one
            for candidate in (path.with_suffix(".py"), path / "__init__.py"):
                if candidate.is_file() and (found := self._load(str(candidate))) is not None:
                    return found
        return None

    def _load(self, file: str) -> _Module | None:
        path = os.path.realpath(file)
        if path not in self._modules:
            tree = parse_source(path, self._roots)
            lines = load_source_lines(path, self._roots)
            self._modules[path] = None if tree is None else _Module(path=path, tree=tree, lines=lines)
        return self._modules[path]


def _find_first(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _find_last(statement: ast.stmt | ast.expr) -> int:
    return statement.end_lineno or statement.lineno


def _is_line(statement: ast.stmt) -> bool:
    return not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _get_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _list_defined(statement: ast.stmt) -> set[str]:
    """Returns the names that a top-level statement gives a value."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    nodes = ast.walk(statement) if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) else ()
    return {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
