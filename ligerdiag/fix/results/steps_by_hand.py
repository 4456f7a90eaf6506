"""Describes a change that the user has to make by hand, so that a caller gets the new contents of an overwritten array.

It is for callers of which the source does not show the function that they call.
"""

from collections.abc import Sequence
from itertools import pairwise

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.definitions import Scope, find_function_at
from ligerdiag.fix.readers.callers import list_callers, list_own_parameters, name_function
from ligerdiag.fix.readers.imported_names import list_module_names
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name
from ligerdiag.model.findings import CallPlace, SourceLine

_MOST_LINES = 8
"""Number of lines of a call, from the innermost one, between which no line is left out."""


def describe_step(project: Project, places: Sequence[CallPlace]) -> str:
    """Returns a clause that says which function has to return more, and where its result has to be used.

    Empty if the line of that call is unknown. project: the project with the changes that were tried. places: the kernel
    calls, with the lines that lead to them.
    """
    for place in places:
        lines = [line for line in (place.line, *place.callers) if line is not None]
        for inner, outer in pairwise(lines[:_MOST_LINES]):
            function = find_function_at(project, inner)
            call = _find_call(project, outer)
            if function is None or call is None:
                break
            file, node = call
            if any(one.call is node for one in list_callers(project, *function)):
                continue  # `fix` follows this one
            if not _calls_directly(function, file, node):
                break
            return _describe(function, file, node, place, is_innermost=inner is place.line)
    return ""


def _calls_directly(function: Scope, file: SourceFile, call: cst.Call) -> bool:
    """Returns whether a call may be one of the function itself, and not of code that is no part of the project and that gets
    the function, such as `jax.lax.scan(body, x)`.
    """
    given = {name.value for one in call.args for name in file.find(cst.Name, one.value)}
    root = file.module.code_for_node(call.func).partition(".")[0]
    return root not in list_module_names(file) and function[1].name.value not in given


def _find_call(project: Project, line: SourceLine) -> tuple[SourceFile, cst.Call] | None:
    """Returns the outermost call around or in a line; None if there are several."""
    try:
        file = project.load(line.file)
    except CannotFixError:
        return None
    found = [one for one in file.find(cst.Call) if file.get_lines(one)[0] <= line.line <= file.get_lines(one)[1]]
    outer = [one for one in found if not any(parent in found for parent in file.list_parents(one))]
    return (file, outer[0]) if len(outer) == 1 else None


def _describe(function: Scope, file: SourceFile, call: cst.Call, place: CallPlace, *, is_innermost: bool) -> str:
    home, definition = function
    name = name_function(home, definition)
    array = _find_array(function, place) if is_innermost else ""
    text = file.module.code_for_node(call)
    where = file.render_place(call)
    all_of_them = "every function that this call may reach has to return as much"
    returned = f"`{array}`" if array else "the new contents"
    written = _write(function, file, call, array)
    if not written:
        return f"return {returned} from `{name}` as well, and use it after `{text}`{where}; {all_of_them}"
    return f"return {returned} from `{name}` as well, and write `{written}`{where}; {all_of_them}"


def _find_array(function: Scope, place: CallPlace) -> str:
    """Returns the parameter of the function that the kernel overwrites; empty if the function has no such parameter."""
    home, definition = function
    if place.line is None:
        return ""
    for one in home.find(cst.Call, definition):
        first, last = home.get_lines(one)
        given = [argument.value for argument in one.args if argument.keyword is None and not argument.star]
        if not first <= place.line.line <= last or len(place.written) != 1 or len(given) != place.operands:
            continue
        name = get_name(given[place.written[0]])
        if isinstance(given[place.written[0]], cst.Name) and name in list_own_parameters(definition):
            return name
    return ""


def _write(function: Scope, file: SourceFile, call: cst.Call, array: str) -> str:
    """Returns the statement that uses what the call returns in addition; empty if it is not known."""
    home, definition = function
    parameters = list_own_parameters(definition)
    if home.find_class(definition) is not None:
        parameters = parameters[1:]
    given = [one.value for one in call.args if one.keyword is None and not one.star]
    named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == array]
    place = parameters.index(array) if array in parameters else len(given)
    value = named[0] if named else given[place] if place < len(given) else None
    statement = next(file.list_parents(call))
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(target))]) if isinstance(value, cst.Name):
            return f"{target}, {value.value} = {file.module.code_for_node(call)}"
        case _:
            return ""
