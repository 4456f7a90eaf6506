"""Finds, in the project's source, the functions and classes that a name refers to, and the functions that contain a line."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name
from ligerdiag.model.findings import Finding, SourceLine

type Scope = tuple[SourceFile, cst.FunctionDef]


def find_definition[Node: (cst.FunctionDef, cst.ClassDef)](
    project: Project, file: SourceFile, name: str, kind: type[Node]
) -> tuple[SourceFile, Node] | None:
    """Returns the file and the node of the `def` or `class` that a name refers to.

    Looks in the file and, if the file imports the name, in the module of the project that it comes from. Returns None if
    there is no such definition, or if there are several.
    """
    if not name:
        return None
    own = [one for one in file.find(kind) if one.name.value == name]
    if own:
        return (file, own[0]) if len(own) == 1 else None
    home, original = find_home(project, file, name)
    if home is None or home is file:
        return None
    found = [one for one in home.find(kind) if one.name.value == original]
    if not found:
        return find_definition(project, home, original, kind) if original in _list_imported(home) else None
    return (home, found[0]) if len(found) == 1 else None


def find_import(file: SourceFile, name: str) -> str:
    """Returns the line by which the file imports the name, such as `from modes import Mode`. Empty if it imports no such
    name.
    """
    for statement in file.find(cst.ImportFrom):
        if statement.module is None or isinstance(statement.names, cst.ImportStar) or statement.relative:
            continue
        if any((one.evaluated_alias or one.evaluated_name) == name for one in statement.names):
            return f"from {file.module.code_for_node(statement.module)} import {name}"
    return ""


def _list_imported(file: SourceFile) -> set[str]:
    return {
        one.evaluated_alias or one.evaluated_name
        for statement in file.find(cst.ImportFrom)
        if not isinstance(statement.names, cst.ImportStar)
        for one in statement.names
    }


def find_home(project: Project, file: SourceFile, name: str) -> tuple[SourceFile | None, str]:
    """Returns the module of the project from which a file imports a name, and what the name is called there.

    The module is None if the project does not have it. If the file does not import the name, the module is the file
    itself.
    """
    for statement in file.find(cst.ImportFrom):
        if isinstance(statement.names, cst.ImportStar):
            continue
        for one in statement.names:
            if (one.evaluated_alias or one.evaluated_name) == name:
                return load_module(project, *locate_import(project, file, statement)), one.evaluated_name
    return None, name


def locate_import(project: Project, file: SourceFile, statement: cst.ImportFrom) -> tuple[Path, str]:
    """Returns the folder from which a `from` statement imports, and the dotted name of the module below this folder."""
    dotted = "" if statement.module is None else file.module.code_for_node(statement.module)
    folder = file.path.parent if statement.relative else project.root
    for _ in range(len(statement.relative) - 1):
        folder = folder.parent
    return folder, dotted


def load_module(project: Project, folder: Path, dotted: str) -> SourceFile | None:
    """Returns the module with this dotted name below a folder, or None if the project has no such module."""
    path = folder.joinpath(*dotted.split(".")) if dotted else folder
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            try:
                return project.load(str(candidate))
            except CannotFixError:
                return None
    return None


def list_scopes(project: Project, findings: Sequence[Finding], case_file: str) -> list[Scope]:
    """Returns the functions that are active when the case runs the calls in the findings, the outermost first.

    If a finding does not list the callers, all functions of the case's file are returned.
    """
    scopes: dict[int, Scope] = {}
    lines = [line for finding in findings for one in (finding, *finding.parts) for line in _list_lines(one)]
    depth = max((place for place, _ in lines), default=0)
    for wanted in range(depth, -1, -1):
        for place, line in lines:
            scope = find_function_at(project, line) if place == wanted else None
            if scope is not None:
                scopes.setdefault(id(scope[1]), scope)
    if case_file and all(str(file.path) != case_file for file, _ in scopes.values()):
        try:
            file = project.load(case_file)
        except CannotFixError:
            return list(scopes.values())
        own: list[Scope] = [(file, one) for one in file.find(cst.FunctionDef) if file.find_function(one) is None]
        return [*own, *scopes.values()]
    return list(scopes.values())


def _list_lines(finding: Finding) -> Iterator[tuple[int, SourceLine]]:
    """Yields (number of calls between the line and the kernel's call, line)."""
    call = finding.call
    if call is None:
        if finding.source is not None:
            yield 0, finding.source
        return
    if call.line is not None:
        yield 0, call.line
    yield from enumerate(call.callers, 1)


def find_function_at(project: Project, line: SourceLine) -> Scope | None:
    """Returns the innermost function definition around a line.

    None if there is no such function, or if the line is in no file of the project.
    """
    try:
        file = project.load(line.file)
    except CannotFixError:
        return None
    around = [one for one in file.find(cst.FunctionDef) if _has_line(file, one, line.line)]
    return (file, around[-1]) if around else None


def _has_line(file: SourceFile, node: cst.CSTNode, line: int) -> bool:
    first, last = file.get_lines(node)
    return first <= line <= last


def list_parameters_of(function: cst.FunctionDef) -> list[cst.Param]:
    """Returns the parameters of a function, including keyword-only ones, and without `self`."""
    parts = function.params
    every = [*parts.posonly_params, *parts.params, *parts.kwonly_params]
    return [one for one in every if one.name.value not in ("self", "cls")]


def find_target(call: cst.Call) -> tuple[str, Sequence[cst.Arg]]:
    """Returns the name of the function that gets the arguments of a call, and these arguments.

    For `f(x)` and for `partial(f, x)`, this is `f`, with the argument `x`.
    """
    if get_name(call.func) == "partial" and call.args:
        return get_name(call.args[0].value), call.args[1:]
    return get_name(call.func), call.args
