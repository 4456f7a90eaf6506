"""Finds all names of an array that a kernel overwrites, besides the argument of the call: `saved = r`, `pair = (r, w)`,
`r = self.r`.

The author of a hidden write expects every name of the array to have the new contents. After the write is declared, only
the names that are assigned again have them. So a change assigns the new contents to every plain variable that certainly
holds the array and is read later. The change is refused if anything else may hold the array and may be read later.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.readers.array_holders import (
    ARRAY_ATTRIBUTES,
    OBJECTS,
    Holder,
    describe_part,
    is_part,
    list_holders,
    list_part_holders,
)
from ligerdiag.fix.readers.function_uses import WRAPPERS
from ligerdiag.fix.readers.name_scopes import (
    SourceVariable,
    dominates,
    find_later_read,
    find_variable,
    is_before,
    is_parameter,
    list_assignments,
)
from ligerdiag.fix.readers.object_parts import find_part_kind
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

NOWHERE = "_"
"""The variable name for a value that is never read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContents:
    """The variables in a function that must be assigned the new contents of an array after a kernel call overwrites it."""

    name: str = NOWHERE
    """The variable to which the call's result is assigned; `NOWHERE` if the function does not read it."""
    followers: tuple[str, ...] = ()
    """Other variables to which an assignment after the call gives the new contents."""
    parameters: tuple[str, ...] = ()
    """Parameters of the function that hold the array, so that callers may read it."""
    containers: tuple[str, ...] = ()
    """Parameters of which a part, such as an element, holds the array."""

    updated: tuple[str, ...] = ()
    """Parameters to a part of which the new contents are assigned, so that a caller's object has them as well."""
    replaced: str = ""
    """Source line that gives an object new contents of one of its parts; empty if the part itself is assigned."""

    @property
    def after(self) -> list[str]:
        """Returns the source lines that have to follow the call."""
        return [*([self.replaced] if self.replaced else []), *(f"{one} = {self.name}" for one in self.followers)]


def plan_new_contents(
    project: Project, file: SourceFile, call: cst.Call, value: cst.BaseExpression, *, writer: str, hands_up: bool
) -> NewContents:
    """Returns the variables that must be assigned the new contents of the argument `value` after a call.

    writer: name of the function that overwrites the array, for messages. hands_up: whether the callers of the function
    around the call get the new contents of its parameters, or of their parts, as well.

    Raises CannotFixError if something that cannot be assigned to may hold the array and be read later, such as an object
    that other code keeps.
    """
    if isinstance(value, cst.Attribute | cst.Subscript):
        return _plan_part(project, file, call, value, writer, hands_up=hands_up)
    if not isinstance(value, cst.Name):
        return NewContents()
    variable = find_variable(file, value, value.value)
    read = find_later_read(file, call, variable)
    if read is not None and not _is_own(file, call, variable):
        raise CannotFixError(_refuse(file, value.value, read, writer))
    followers: list[str] = []
    containers: list[str] = []
    parameters = [value.value] if _is_overwritten_parameter(file, call, variable) else []
    for holder in list_holders(file, call, variable):
        held = find_variable(file, holder.node, holder.name) if holder.name else None
        is_handed = held is not None and holder.is_array and _is_overwritten_parameter(file, call, held, holder.node)
        if is_handed:
            parameters.append(holder.name)
            if hands_up:
                _require_one_value(file, call, holder.name)
        if not _may_be_read(file, call, holder, held) and not (is_handed and hands_up):
            if held is not None and not holder.is_array and is_parameter(file, held):
                containers.append(holder.name)
            continue
        if held is None or not _is_certain(file, call, variable, held, holder):
            if not _can_follow(project, file, call, variable, holder):
                raise CannotFixError(_refuse(file, holder.text, holder.node, writer))
            followers.append(holder.text)
            continue
        followers.append(holder.name)
    followers = [one for one in dict.fromkeys(followers) if one != value.value]
    needed = read is not None or bool(followers) or (hands_up and bool(parameters))
    if hands_up and value.value in parameters:
        _require_one_value(file, call, value.value)
    return NewContents(
        name=_choose_name(file, call, variable, bool(followers)) if needed else NOWHERE,
        followers=tuple(followers),
        parameters=tuple(dict.fromkeys(parameters)),
        containers=tuple(dict.fromkeys(containers)),
    )


def _plan_part(
    project: Project,
    file: SourceFile,
    call: cst.Call,
    value: cst.Attribute | cst.Subscript,
    writer: str,
    *,
    hands_up: bool,
) -> NewContents:
    """Returns the answer for an argument such as `self.r` or `state["r"]`, which is a part of an object."""
    if isinstance(value, cst.Attribute) and value.attr.value in ARRAY_ATTRIBUTES:
        return NewContents()
    if isinstance(value, cst.Subscript) and not is_part(file, value):
        return NewContents()
    whole = describe_part(file, value)
    held = find_variable(file, value, whole.name) if whole.name else None
    containers = (whole.name,) if held is not None and is_parameter(file, held) and whole.name not in OBJECTS else ()
    followers: list[str] = []
    for holder in list_part_holders(file, call, value):
        other = find_variable(file, holder.node, holder.name) if holder.name else None
        if not _may_be_read(file, call, holder, other):
            continue
        if other is None or not _is_certain_part(file, call, whole, other, holder):
            raise CannotFixError(_refuse(file, holder.text, holder.node, writer))
        followers.append(holder.name)
    is_read = _may_be_read(file, call, whole, held) or (hands_up and bool(containers))
    if not is_read and not followers:
        return NewContents(containers=containers)
    kind = find_part_kind(project, file, value)
    if whole.name in OBJECTS and is_read and _is_traced(file, call):
        text = f"{_refuse(file, whole.text, value, writer)}: JAX traces the method, and the object would keep a tracer"
        raise CannotFixError(text)
    is_bound = held is not None and any(one in held.bindings for one in _list_names_beside(file, call))
    if is_read and (is_bound or not (kind.is_assigned or kind.replacing)):
        reason = "" if is_bound or not kind.reason else f": {kind.reason}"
        raise CannotFixError(f"{_refuse(file, whole.text, value, writer)}{reason}")
    if not is_read or kind.replacing:
        if kind.replacing and held is not None and _list_readers_of_whole(file, call, held):
            raise CannotFixError(f"{_refuse(file, whole.text, value, writer)}: {kind.reason}")
        name = file.find_unused_name(
            f"new_{whole.text.rpartition('.')[2]}" if is_read else "new", file.find_function(call)
        )
        field = value.attr.value if isinstance(value, cst.Attribute) else ""
        object_text = file.module.code_for_node(value.value)
        first = "" if kind.replacing.endswith("._replace") else f"{object_text}, "
        line = f"{object_text} = {kind.replacing}({first}{field}={name})" if is_read else ""
        return NewContents(name=name, followers=tuple(followers), containers=containers, replaced=line)
    return NewContents(name=whole.text, followers=tuple(followers), updated=containers)


def _is_traced(file: SourceFile, call: cst.CSTNode) -> bool:
    """Returns whether a decorator of a function around a call makes JAX trace it, such as `@partial(jax.jit, ...)`."""
    return any(
        any(get_name(one) in WRAPPERS for kind in (cst.Name, cst.Attribute) for one in file.find(kind, decorator))
        for function in file.list_parents(call)
        if isinstance(function, cst.FunctionDef)
        for decorator in function.decorators
    )


def _list_names_beside(file: SourceFile, call: cst.Call) -> Iterator[cst.Name]:
    """Yields the names in the statement of a call, apart from those in the call."""
    inside = set(file.find(cst.Name, call))
    statement = next((one for one in file.list_parents(call) if isinstance(one, cst.BaseStatement)), None)
    if isinstance(statement, cst.SimpleStatementLine):
        yield from (one for one in file.find(cst.Name, statement) if one not in inside)


def _list_readers_of_whole(file: SourceFile, call: cst.Call, held: SourceVariable) -> list[Holder]:
    """Returns the other variables that may be the object, or have it, and are read after the call."""
    return [
        one
        for one in list_holders(file, call, held)
        if _may_be_read(file, call, one, find_variable(file, one.node, one.name) if one.name else None)
    ]


def _is_certain_part(file: SourceFile, call: cst.CSTNode, whole: Holder, held: SourceVariable, holder: Holder) -> bool:
    """Returns whether a variable certainly holds the part of an object that a call gets: a statement that always runs before
    the call assigned one of them to the other, and nothing was assigned to them between.
    """
    if not holder.is_array or holder.derived is None or not dominates(file, holder.derived, call):
        return False
    line, first = file.get_lines(holder.derived)[0], file.get_lines(call)[0]
    targets: list[cst.CSTNode] = [*list_assignments(file, held)]
    targets += [one for one in file.find(cst.AssignTarget) if describe_part(file, one.target).name == whole.name]
    return not any(
        file.get_lines(one)[0] > line and (file.get_lines(one)[0] < first or is_before(file, one, call))
        for one in targets
    )


def _can_follow(
    project: Project, file: SourceFile, call: cst.CSTNode, variable: SourceVariable, holder: Holder
) -> bool:
    """Returns whether a part of an object certainly holds the array of a variable, by `self.r = r` or `r = self.r`, and can
    be assigned.
    """
    node = holder.node
    if not isinstance(node, cst.Attribute | cst.Subscript) or file.module.code_for_node(node) != holder.text:
        return False
    statement = next((one for one in file.list_parents(node) if isinstance(one, cst.BaseStatement)), None)
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]) if {
            target,
            value,
        } - {node} <= {*variable.reads, *variable.bindings}:
            derived = Holder(node=node, text=holder.text, name=holder.name, is_array=True, derived=statement)
            is_certain = _is_certain_part(file, call, holder, variable, derived)
            return is_certain and find_part_kind(project, file, node).is_assigned
        case _:
            return False


def _refuse(file: SourceFile, text: str, node: cst.CSTNode, writer: str) -> str:
    return f"`{text}` would keep the old contents of the array that `{writer}` overwrites{file.render_place(node)}"


def _choose_name(file: SourceFile, call: cst.Call, variable: SourceVariable, has_followers: bool) -> str:
    """Returns the variable that gets the new contents: the argument's own one, unless the statement gives it another
    value.
    """
    statement = next((one for one in file.list_parents(call) if isinstance(one, cst.BaseStatement)), None)
    is_bound = statement is not None and any(one in variable.bindings for one in file.find(cst.Name, statement))
    if is_bound and has_followers:
        return file.find_unused_name(f"new_{variable.name}", file.find_function(call))
    return variable.name


def _is_own(file: SourceFile, call: cst.CSTNode, variable: SourceVariable) -> bool:
    """Returns whether an assignment beside the call assigns to the variable."""
    function = next((one for one in file.list_parents(call) if isinstance(one, cst.FunctionDef | cst.Lambda)), None)
    if isinstance(variable.scope, cst.Module):
        return function is None
    return variable.scope is function


def _is_overwritten_parameter(
    file: SourceFile, call: cst.CSTNode, variable: SourceVariable, read: cst.CSTNode | None = None
) -> bool:
    """Returns whether a variable is a parameter of the function of the call, and may still hold the caller's array where
    `read` reads it; None for the call.
    """
    is_def = isinstance(variable.scope, cst.FunctionDef)  # the callers of a lambda are not known
    if not is_def or not is_parameter(file, variable) or not _is_own(file, call, variable):
        return False
    statements = [
        next((parent for parent in file.list_parents(one) if isinstance(parent, cst.SimpleStatementLine)), None)
        for one in list_assignments(file, variable)
    ]
    return not any(one is not None and dominates(file, one, read or call) for one in statements)


def _require_one_value(file: SourceFile, call: cst.CSTNode, parameter: str) -> None:
    """Raises CannotFixError if a parameter gets another value: a `return` could not return the overwritten array by it."""
    again = list_assignments(file, find_variable(file, call, parameter))
    if again:
        raise CannotFixError(
            f"`{parameter}` is assigned again, so that its new contents cannot be returned{file.render_place(again[0])}"
        )


def _may_be_read(file: SourceFile, call: cst.CSTNode, holder: Holder, held: SourceVariable | None) -> bool:
    if held is None or held.name in OBJECTS or held.is_global or not _is_own(file, call, held):
        return True
    return find_later_read(file, call, held, apart_from=holder.node) is not None


def _is_certain(
    file: SourceFile, call: cst.CSTNode, variable: SourceVariable, held: SourceVariable, holder: Holder
) -> bool:
    """Returns whether the two variables certainly hold one array at the call: one got it from the other by a statement
    that always runs before the call, and neither is bound between.
    """
    if not holder.is_array or holder.derived is None or not dominates(file, holder.derived, call):
        return False
    line = file.get_lines(holder.derived)[0]
    first = file.get_lines(call)[0]
    statement = next((one for one in file.list_parents(call) if isinstance(one, cst.BaseStatement)), None)
    own = set[cst.Name]() if statement is None else set(file.find(cst.Name, statement))
    for one in (variable, held):
        for binding in list_assignments(file, one):
            place = file.get_lines(binding)[0]
            if place > line and binding not in own and (place <= first or is_before(file, binding, call)):
                return False
    return True
