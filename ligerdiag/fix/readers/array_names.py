"""Finds the other names of an array that a kernel overwrites: `saved = r`, `pair = (r, w)`, `r = self.r`.

The author of a hidden write expects every name of the array to have the new contents. After the write is declared, only the
names that are assigned again have them. So a change assigns the new contents to every plain variable that certainly holds
the array and is read later. The change is refused if anything else may hold the array and may be read later.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.readers.name_scopes import (
    SourceVariable,
    dominates,
    find_later_read,
    find_unpacking,
    find_variable,
    is_before,
    is_parameter,
    list_assignments,
)
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

NOWHERE = "_"
"""The variable name for a value that is never read."""

_IDENTITIES = frozenset({"asarray", "stop_gradient", "optimization_barrier"})
"""Functions that may return their argument itself."""
_KEEPING = frozenset({"dict", "list", "tuple", "set", "zip", "enumerate", "reversed", "partial", "replace", "_replace"})
"""Functions whose result holds their arguments; a class does, too."""
_STORING = frozenset({"append", "appendleft", "add", "extend", "insert", "setdefault", "update", "put", "setattr"})
"""Methods after which the object holds the arguments."""
_TAKING = frozenset({"items", "values", "get", "pop", "popleft", "copy"})
"""Methods whose result the object holds."""
_ARRAY_ATTRIBUTES = frozenset({"T", "mT", "real", "imag", "at", "shape", "dtype", "ndim", "size"})
"""Attributes of an array, which are no other names of it."""
_OBJECTS = frozenset({"self", "cls"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContents:
    """The variables in a function that have to get new contents, because a kernel call in the function overwrites their
    array.
    """

    name: str = NOWHERE
    """The variable to which the call's result is assigned; `NOWHERE` if the function does not read it."""
    followers: tuple[str, ...] = ()
    """Other variables to which an assignment after the call gives the new contents."""
    parameters: tuple[str, ...] = ()
    """Parameters of the function that hold the array, so that callers may read it."""
    containers: tuple[str, ...] = ()
    """Parameters of which a part, such as an element, holds the array."""

    @property
    def after(self) -> list[str]:
        """Returns the source lines to insert after the call."""
        return [f"{one} = {self.name}" for one in self.followers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Holder:
    """Something that holds the array besides the argument of the call."""

    node: cst.CSTNode
    """The expression by which it came to hold the array."""
    text: str
    name: str = ""
    """The variable, or that from which the object is reached; empty for an object without a name."""
    is_array: bool = False
    """Whether the variable is the array itself, and not an object that has it."""
    derived: cst.CSTNode | None = None
    """The statement `saved = r`, if the variable got the array by it or gave it by it."""


def plan_new_contents(
    file: SourceFile, call: cst.Call, value: cst.BaseExpression, *, writer: str, hands_up: bool
) -> NewContents:
    """Returns the variables that have to get the new contents of the argument `value` of a call. Raises CannotFixError if
    something else may hold the array and be read later, and cannot be assigned to, such as an object that other code keeps.

    writer: name of the function that overwrites the array, for messages. hands_up: whether the function around the call also
    returns the new contents of its parameters to its callers.
    """
    if isinstance(value, cst.Attribute | cst.Subscript):
        return _plan_part(file, call, value, writer)
    if not isinstance(value, cst.Name):
        return NewContents()
    variable = find_variable(file, value, value.value)
    read = find_later_read(file, call, variable)
    if read is not None and not _is_own(file, call, variable):
        raise CannotFixError(_refuse(file, value.value, read, writer))
    followers: list[str] = []
    containers: list[str] = []
    parameters = [value.value] if _is_overwritten_parameter(file, call, variable) else []
    for holder in _list_holders(file, call, variable):
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
            raise CannotFixError(_refuse(file, holder.text, holder.node, writer))
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


def _is_part(file: SourceFile, value: cst.Subscript) -> bool:
    """Returns whether a subscript takes a part of a dict, tuple or list. That of an array is a new array."""
    indices = [one.slice.value for one in value.slice if isinstance(one.slice, cst.Index)]
    if any(isinstance(one, cst.SimpleString | cst.FormattedString) for one in indices):
        return True
    if not isinstance(value.value, cst.Name):
        return isinstance(value.value, cst.Subscript) and _is_part(file, value.value)
    for binding in find_variable(file, value, value.value.value).bindings:
        for parent in file.list_parents(binding):
            match parent:
                case cst.Assign(value=assigned) | cst.AnnAssign(value=assigned):
                    kinds = cst.Tuple | cst.List | cst.Dict | cst.ListComp | cst.DictComp
                    if isinstance(assigned, kinds) and isinstance(next(file.list_parents(binding)), cst.AssignTarget):
                        return True
                    break
                case cst.Param(star=star) if star:
                    return True
                case cst.BaseStatement():
                    break
                case _:
                    pass
    return False


def _plan_part(file: SourceFile, call: cst.Call, value: cst.Attribute | cst.Subscript, writer: str) -> NewContents:
    """Returns the answer for an argument such as `self.r` or `state["r"]`, to which nothing is assigned."""
    if isinstance(value, cst.Attribute) and value.attr.value in _ARRAY_ATTRIBUTES:
        return NewContents()
    if isinstance(value, cst.Subscript) and not _is_part(file, value):
        return NewContents()
    holder = _describe_part(file, value)
    held = find_variable(file, value, holder.name) if holder.name else None
    if _may_be_read(file, call, holder, held):
        raise CannotFixError(_refuse(file, holder.text, value, writer))
    return NewContents(containers=(holder.name,) if held is not None and is_parameter(file, held) else ())


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


def _may_be_read(file: SourceFile, call: cst.CSTNode, holder: _Holder, held: SourceVariable | None) -> bool:
    if held is None or held.name in _OBJECTS or held.is_global or not _is_own(file, call, held):
        return True
    return find_later_read(file, call, held, apart_from=holder.node) is not None


def _is_certain(
    file: SourceFile, call: cst.CSTNode, variable: SourceVariable, held: SourceVariable, holder: _Holder
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


def _list_holders(file: SourceFile, call: cst.Call, variable: SourceVariable) -> list[_Holder]:
    """Returns everything that may hold the array of a variable when the call runs."""
    found: list[_Holder] = []
    inside, seen = set(file.find(cst.Name, call)), {variable.name}
    first = _find_last_binding(file, call, variable)
    pending = [(variable, True, variable)]
    while pending:
        one, is_array, part = pending.pop()
        start = first if one is variable else None
        apart = None if one is variable else find_unpacking(file, one, part)
        nodes = [
            holder
            for read in one.reads
            if read not in inside and is_before(file, read, call)
            if start is None or file.get_lines(read)[0] > file.get_lines(start)[1]
            if apart is None or not any(parent is apart for parent in file.list_parents(read))
            for holder in _follow(file, read)
        ]
        nodes += [
            holder
            for binding in one.bindings
            if start is None or file.get_lines(binding)[0] >= file.get_lines(start)[0]
            for holder in _list_origins(file, binding, call)
        ]
        for holder in nodes:
            found.append(holder if one is variable else _as_remote(holder, is_array=is_array and holder.is_array))
            if holder.name and holder.name not in seen and holder.name not in _OBJECTS:
                seen.add(holder.name)
                held = find_variable(file, holder.node, holder.name)
                pending.append((held, is_array and holder.is_array, one))
    unique = {(one.text, one.name): one for one in reversed(found)}
    return [
        one
        for one in reversed([*unique.values()])
        if one.name != variable.name or not (one.is_array or one.text == one.name)  # the variable itself
    ]


def _find_last_binding(file: SourceFile, call: cst.Call, variable: SourceVariable) -> cst.CSTNode | None:
    """Returns the last statement above a call that always runs before it and makes the variable another array; None if
    there is none. What held the variable's array before that statement holds another one.
    """
    last: cst.CSTNode | None = None
    for binding in list_assignments(file, variable):
        statement = next((one for one in file.list_parents(binding) if isinstance(one, cst.SimpleStatementLine)), None)
        is_guarded = isinstance(next(file.list_parents(binding)), cst.NamedExpr)
        if statement is None or is_guarded or not dominates(file, statement, call):
            continue
        if any(one.name == variable.name for one in _list_origins(file, binding, call)):
            continue  # as in `h = jnp.asarray(h)`, which may be the same array
        if last is None or file.get_lines(statement)[0] > file.get_lines(last)[0]:
            last = statement
    return last


def _as_remote(holder: _Holder, *, is_array: bool) -> _Holder:
    return _Holder(node=holder.node, text=holder.text, name=holder.name, is_array=is_array)


def _describe_part(file: SourceFile, value: cst.BaseExpression) -> _Holder:
    """Returns the holder of a part of an object, such as `self.r`, or `r` of `pair[0]`."""
    root = value
    while isinstance(root, cst.Attribute | cst.Subscript | cst.Call):
        root = root.func if isinstance(root, cst.Call) else root.value
    name = root.value if isinstance(root, cst.Name) else ""
    return _Holder(node=value, text=file.module.code_for_node(value), name=name)


def _follow(file: SourceFile, read: cst.Name) -> Iterator[_Holder]:
    """Yields what gets the array by a read of a variable that has it."""
    child: cst.CSTNode = read
    is_array = True
    for parent in file.list_parents(read):
        match parent:
            case cst.Element() | cst.StarredElement() | cst.DictElement() | cst.Tuple() | cst.List() | cst.Set():
                if isinstance(parent, cst.DictElement) and parent.key is child:
                    return
                is_array = False
            case cst.Dict():
                is_array = False
            case cst.IfExp(test=test) if test is not child:
                pass
            case cst.BooleanOperation():
                pass
            case cst.NamedExpr(target=cst.Name(value=name)):
                yield _Holder(node=parent, text=name, name=name, is_array=is_array)
            case cst.Arg():
                pass
            case cst.Call(func=function) if function is not child:
                name = get_name(function)
                if isinstance(next(file.list_parents(parent)), cst.Expr):  # whose result nobody uses
                    if name in _STORING and isinstance(function, cst.Attribute):
                        yield _describe_part(file, function.value)
                    elif name in _STORING:
                        yield _Holder(node=parent, text=file.module.code_for_node(parent))
                    return
                if name in _KEEPING or name[:1].isupper():
                    is_array = False
                elif name not in _IDENTITIES and not _may_return_argument(file, name):
                    return
            case cst.Assign() | cst.AnnAssign():
                yield from _list_targets(file, parent, child, read, is_array)
                return
            case cst.Param(name=cst.Name(value=name)):
                function = next(
                    one for one in file.list_parents(parent) if isinstance(one, cst.FunctionDef | cst.Lambda)
                )
                text = function.name.value if isinstance(function, cst.FunctionDef) else f"lambda {name}"
                own = function.name.value if isinstance(function, cst.FunctionDef) else ""
                yield _Holder(node=parent, text=text, name=own)
                return
            case _:
                return
        child = parent


def _list_targets(
    file: SourceFile, statement: cst.Assign | cst.AnnAssign, value: cst.CSTNode, read: cst.Name, is_array: bool
) -> Iterator[_Holder]:
    targets = [one.target for one in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    for target in targets:
        paired = _pair(target, value)
        if paired is not None:
            for part, own in paired:
                if any(one is read for one in file.find(cst.Name, own)):
                    yield from _describe_target(file, statement, part, own is read, is_single=False)
        else:
            yield from _describe_target(
                file, statement, target, is_array and value is read, is_single=len(targets) == 1
            )


def _describe_target(
    file: SourceFile, statement: cst.CSTNode, target: cst.BaseExpression, is_array: bool, *, is_single: bool
) -> Iterator[_Holder]:
    match target:
        case cst.Name(value=name):
            derived = next(one for one in file.list_parents(statement) if isinstance(one, cst.BaseStatement))
            yield _Holder(
                node=target,
                text=name,
                name=name,
                is_array=is_array,
                derived=derived if is_single and is_array else None,
            )
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for one in elements:
                yield from _describe_target(file, statement, one.value, is_array, is_single=False)
        case _:
            yield _describe_part(file, target)


def _pair(
    target: cst.BaseExpression | cst.BaseAssignTargetExpression, value: cst.CSTNode
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]] | None:
    """Returns the parts of `a, b = r, w` one by one; None if the sides are not written so."""
    if not isinstance(target, cst.Tuple | cst.List) or not isinstance(value, cst.Tuple | cst.List):
        return None
    if len(target.elements) != len(value.elements):
        return None
    if any(isinstance(one, cst.StarredElement) for one in (*target.elements, *value.elements)):
        return None
    return [(one.value, own.value) for one, own in zip(target.elements, value.elements, strict=True)]


def _list_origins(file: SourceFile, binding: cst.Name, call: cst.CSTNode) -> Iterator[_Holder]:
    """Yields what the variable may have got its array from, and what therefore holds it as well."""
    if not is_before(file, binding, call) and not any(
        isinstance(one, cst.CompFor) for one in file.list_parents(binding)
    ):
        return
    is_whole = True
    child: cst.CSTNode = binding
    for parent in file.list_parents(binding):
        match parent:
            case cst.Element() | cst.StarredElement() | cst.Tuple() | cst.List():
                is_whole = False
            case cst.AssignTarget():
                pass
            case cst.Assign(value=value):
                targets = [one.target for one in parent.targets]
                paired = next((found for one in targets if (found := _pair(one, value)) is not None), None)
                if not is_whole and paired is not None:
                    for part, own in paired:
                        if any(one is binding for one in file.find(cst.Name, part)):
                            yield from _list_leaves(file, own, part is binding, None)
                    return
                derived = next(one for one in file.list_parents(parent) if isinstance(one, cst.BaseStatement))
                single = is_whole and len(targets) == 1 and isinstance(value, cst.Name)
                yield from _list_leaves(file, value, is_whole, derived if single else None)
                return
            case cst.AnnAssign(value=cst.BaseExpression() as value) | cst.NamedExpr(value=value):
                yield from _list_leaves(file, value, is_whole, None)
                return
            case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value) if target is child:
                yield from _list_leaves(file, value, False, None)
                return
            case _:
                return
        child = parent


def _may_return_argument(file: SourceFile, name: str) -> bool:
    """Returns whether a function of the file may return one of its arguments, alone or in a tuple."""
    for function in file.find(cst.FunctionDef):
        if not name or function.name.value != name:
            continue
        listed = [one.name for one in file.find(cst.Param, function.params)]
        parameters = {one.value for one in listed if not list_assignments(file, find_variable(file, one, one.value))}
        for statement in file.find(cst.Return, function):
            value = statement.value
            parts = [one.value for one in value.elements] if isinstance(value, cst.Tuple | cst.List) else [value]
            if any(isinstance(one, cst.Name) and one.value in parameters for one in parts):
                return True
    return False


def _list_leaves(
    file: SourceFile, value: cst.BaseExpression, is_array: bool, derived: cst.CSTNode | None
) -> Iterator[_Holder]:
    """Yields the objects from which an expression takes an array without computing a new one."""
    match value:
        case cst.Name(value=name):
            yield _Holder(node=value, text=name, name=name, is_array=is_array, derived=derived)
        case cst.Attribute(attr=cst.Name(value=name)) if name not in _ARRAY_ATTRIBUTES:
            yield _describe_part(file, value)
        case cst.Subscript() if _is_part(file, value):
            yield _describe_part(file, value)
        case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
            yield from _list_leaves(file, one, is_array, None)
            yield from _list_leaves(file, other, is_array, None)
        case cst.NamedExpr(target=cst.Name() as target, value=inner):
            yield from _list_leaves(file, target, is_array, None)
            yield from _list_leaves(file, inner, is_array, None)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for one in elements:
                yield from _list_leaves(file, one.value, False, None)
        case cst.Call(func=function, args=args):
            name = get_name(function)
            if name in _IDENTITIES or name in _KEEPING or _may_return_argument(file, name):
                for one in args:
                    yield from _list_leaves(file, one.value, is_array and name not in _KEEPING, None)
            elif name in _TAKING and isinstance(function, cst.Attribute):
                yield _describe_part(file, function.value)
        case _:
            return
