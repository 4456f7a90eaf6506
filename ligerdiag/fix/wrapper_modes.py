"""Changes the argument by which a program chooses how a wrapper (a function around a kernel call) calls its kernel:
`in_place=False`, `mode="aliased"`.

Libraries of kernels hide the call behind a function with an argument that says how the kernel is called. The change then
belongs to that argument, at the outermost place where the project passes it. Other users of the library are not affected,
and the call itself may unpack its operands with `*`.

An argument counts if its name or its possible values are about writing in place. The values come from the source: the
members of an enumeration, a `Literal`, `True` and `False`, the strings with which the function compares its parameter, or
the parameter's default. Judging the changed programs shows which value is right.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.call_arguments import add_keyword, parse_argument
from ligerdiag.fix.call_site import PALLAS_CALL, TRITON_CALL, Project
from ligerdiag.fix.definitions import find_definition, find_import, find_target, list_parameters_of, list_scopes
from ligerdiag.fix.records import Texts
from ligerdiag.fix.source_file import CannotFixError, SourceFile, UnrelatedCureError, get_name
from ligerdiag.model.findings import Finding
from ligerdiag.model.jobs import CaseSpec

_ABOUT_WRITES = re.compile(r"in_?place|alias|donat|overwrit|mutat|declar|hidden|clobber", re.IGNORECASE)
_WISHES = (
    re.compile(r"alias|declar|ref$", re.IGNORECASE),
    re.compile(r"^in_?place", re.IGNORECASE),
    re.compile(r"out_?of_?place|copy|functional|pure|safe", re.IGNORECASE),
    re.compile(r"barrier|tie", re.IGNORECASE),
)
"""Parts of values, the best first."""
_WORST = re.compile(r"hidden|trivial|unsafe|undeclared", re.IGNORECASE)
_MOST_TOGETHER = 3
"""Number of programs that are judged at once, as most cures are found among the first ones."""
_MOST_LEVELS = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Way:
    """A value that an argument may get."""

    file: SourceFile
    calls: tuple[cst.Call, ...]
    """Calls of one function that pass the argument in the same way; all of them are changed."""
    keyword: str
    text: str
    """Source of the value."""
    place: int | None = None
    """Number of the argument among those of the call, if it is passed by its position."""
    line: str = ""
    """Import that the text needs; empty if it needs none."""
    wish: int = 0
    """Number that is small for a value which a reader would try first."""


def list_wrapper_modes(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns the texts of changed programs in batches, the likeliest first.

    Each has another value for an argument that says how the kernel writes. Changes at the outermost place come before
    changes further inside. At one place, the likelier value comes first. Raises UnrelatedCureError if no argument on the
    way to the kernel's call says how the kernel writes.
    """
    batches: list[list[Texts]] = []
    seen: set[cst.CSTNode] = set()
    for file, function in list_scopes(project, findings, case.source.file):
        ways = sorted(_list_ways(project, file, function, seen), key=lambda one: one.wish)
        texts = [made for one in ways if (made := _render(one))]
        texts = [one for number, one in enumerate(texts) if one not in texts[:number]]
        batches += [texts[number : number + _MOST_TOGETHER] for number in range(0, len(texts), _MOST_TOGETHER)]
        if len(batches) >= _MOST_LEVELS:
            break
    if not batches:
        raise UnrelatedCureError("no argument of the functions around the call says how the kernel writes")
    return batches[:_MOST_LEVELS]


def _list_ways(project: Project, file: SourceFile, function: cst.FunctionDef, seen: set[cst.CSTNode]) -> Iterator[_Way]:
    """Yields the values for the arguments of the calls in a function. seen: the calls of other functions."""
    groups: dict[tuple[str, str, str], list[cst.Call]] = {}
    for call in file.find(cst.Call, function):
        target, given = find_target(call)
        if call in seen or target in (TRITON_CALL, PALLAS_CALL):
            continue
        seen.add(call)
        passed = {one.keyword.value: one for one in given if one.keyword is not None}
        callee = find_definition(project, file, target, cst.FunctionDef)
        if callee is not None:
            passed |= _list_positional(given, callee[1])
        names = dict.fromkeys(passed)
        if callee is not None and not any(one.star for one in given):
            names |= {one.name.value: None for one in list_parameters_of(callee[1]) if one.default is not None}
        for name in names:
            value = passed[name].value if name in passed else None
            now = "" if value is None else file.module.code_for_node(value)
            groups.setdefault((target, name, now), []).append(call)
    for (target, name, now), calls in groups.items():
        argument = _find_argument(project, file, calls[0], name)
        values = _list_values(project, file, function, target, name, None if argument is None else argument.value)
        if not values or not (_ABOUT_WRITES.search(name) or any(_ABOUT_WRITES.search(one) for one, _ in values)):
            continue
        for text, line in values:
            wish = _compute_wish(name, text)
            if text != now and wish is not None:
                place = None if argument is None or argument.keyword is not None else calls[0].args.index(argument)
                yield _Way(file=file, calls=tuple(calls), keyword=name, text=text, place=place, line=line, wish=wish)


def _list_positional(given: Sequence[cst.Arg], callee: cst.FunctionDef) -> dict[str, cst.Arg]:
    """Returns the positional arguments by the names of their parameters, up to one with `*`."""
    names = [one.name.value for one in list_parameters_of(callee)]
    stars = [number for number, one in enumerate(given) if one.star or one.keyword is not None]
    return dict(zip(names, given[: min(stars, default=len(given))], strict=False))


def _find_argument(project: Project, file: SourceFile, call: cst.Call, name: str) -> cst.Arg | None:
    """Returns the argument that a call passes for the parameter `name`, by its name or by its position."""
    target, given = find_target(call)
    by_name = next((one for one in given if one.keyword is not None and one.keyword.value == name), None)
    callee = find_definition(project, file, target, cst.FunctionDef)
    return by_name if by_name is not None or callee is None else _list_positional(given, callee[1]).get(name)


def _list_values(  # noqa: PLR0917
    project: Project,
    file: SourceFile,
    function: cst.FunctionDef,
    target: str,
    name: str,
    value: cst.BaseExpression | None,
) -> list[tuple[str, str]]:
    """Returns the possible values of an argument, each with the import that it needs; the default comes last."""
    found: dict[str, str] = {}
    if isinstance(value, cst.Name):
        around = [function, *(one for one in file.list_parents(function) if isinstance(one, cst.FunctionDef))]
        own = (one for scope in around for one in list_parameters_of(scope) if one.name.value == value.value)
        parameter = next(own, None)
        if parameter is not None:
            found |= _read_annotation(project, file, file, parameter) or _read_truth(parameter.default)
    callee = find_definition(project, file, target, cst.FunctionDef)
    if callee is not None:
        home, definition = callee
        parameter = next((one for one in list_parameters_of(definition) if one.name.value == name), None)
        if parameter is not None:
            if not found:
                found |= _read_annotation(project, home, file, parameter)
            found |= dict.fromkeys(_list_compared(home, definition, name), "")
            default = parameter.default
            if isinstance(default, cst.SimpleString) and not found:
                found[home.module.code_for_node(default)] = ""
            found |= _read_truth(default)
            if value is None and isinstance(default, cst.Name):
                found.pop(default.value, None)
    if isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name):
        found |= _list_members(project, file, file, value.value.value)
    found |= _read_truth(value)
    return list(found.items())


def _read_truth(value: cst.BaseExpression | None) -> dict[str, str]:
    """Returns both truth values for one of them; {} for anything else."""
    is_truth = isinstance(value, cst.Name) and value.value in ("True", "False")
    return {"True": "", "False": ""} if is_truth else {}


def _read_annotation(project: Project, home: SourceFile, file: SourceFile, parameter: cst.Param) -> dict[str, str]:
    """Returns the values that a parameter's annotation allows, for a call in `file`. home: the file of the parameter."""
    if parameter.annotation is None:
        return {}
    node = parameter.annotation.annotation
    if isinstance(node, cst.BinaryOperation) and get_name(node.right) == "None":
        node = node.left
    if isinstance(node, cst.Subscript) and get_name(node.value) == "Literal":
        parts = [one.slice for one in node.slice]
        return {home.module.code_for_node(one.value): "" for one in parts if isinstance(one, cst.Index)}
    if get_name(node) == "bool":
        return {"True": "", "False": ""}
    return _list_members(project, home, file, get_name(node))


def _list_members(project: Project, home: SourceFile, file: SourceFile, name: str) -> dict[str, str]:
    """Returns the members of an enumeration that `home` knows by this name, as `file` can write them."""
    found = find_definition(project, home, name, cst.ClassDef)
    if found is None or not any("Enum" in get_name(one.value) for one in found[1].bases):
        return {}
    line = ""
    if found[0] is not file and not find_import(file, name):
        line = find_import(home, name)
        if not line:
            return {}
    members: dict[str, str] = {}
    for statement in found[1].body.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.Assign) and isinstance(target := small.targets[0].target, cst.Name):
                members[f"{name}.{target.value}"] = line
    return members


def _list_compared(home: SourceFile, function: cst.FunctionDef, name: str) -> Iterator[str]:
    """Yields the texts with which a function compares its parameter."""
    for one in home.find(cst.Comparison, function.body):
        if isinstance(one.left, cst.Name) and one.left.value == name:
            for part in one.comparisons:
                yield from (home.module.code_for_node(text) for text in home.find(cst.SimpleString, part.comparator))
    for one in home.find(cst.Match, function.body):
        if isinstance(one.subject, cst.Name) and one.subject.value == name:
            for case in one.cases:
                yield from (home.module.code_for_node(text) for text in home.find(cst.SimpleString, case.pattern))


def _compute_wish(name: str, text: str) -> int | None:
    """Returns a number that is smaller for a likelier value; None for one that surely declares nothing."""
    value = text.rpartition(".")[2].strip("\"'").lower()
    if value in ("true", "false"):
        wants = not re.search(r"in_?place|donat|overwrit|mutat|hidden|clobber", name, re.IGNORECASE)
        return 0 if (value == "true") == wants else None
    if _WORST.search(value):
        return None
    return next((number for number, one in enumerate(_WISHES) if one.search(value)), len(_WISHES))


def _render(way: _Way) -> Texts:
    """Returns the changed text of the file; {} if the argument cannot be changed there."""
    new = parse_argument(f"{way.keyword}={way.text}")

    def set_argument(node: cst.CSTNode) -> cst.Call:
        assert isinstance(node, cst.Call)
        args = [*node.args]
        if way.place is not None:
            args[way.place] = args[way.place].with_changes(value=new.value)
            return node.with_changes(args=args)
        for place, one in enumerate(args):
            if one.keyword is not None and one.keyword.value == way.keyword:
                args[place] = one.with_changes(value=new.value)
                return node.with_changes(args=args)
        return add_keyword(node, f"{way.keyword}={way.text}", after=())

    try:
        return way.file.render_with([(one, set_argument) for one in way.calls], imports=[way.line] if way.line else [])
    except CannotFixError:
        return {}
