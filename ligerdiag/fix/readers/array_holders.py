"""Finds everything in a function that may hold an array besides the variable that is passed to the kernel: its holders.

A holder is another variable, a tuple, a dict or an object. It got the array from the variable, or the variable got the
array from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.readers.name_scopes import (
    SourceVariable,
    dominates,
    find_unpacking,
    find_variable,
    is_before,
    list_assignments,
)
from ligerdiag.fix.source_file import SourceFile, get_name

_IDENTITIES = frozenset({"asarray", "stop_gradient", "optimization_barrier"})
"""Functions that may return their argument itself."""
_KEEPING = frozenset({"dict", "list", "tuple", "set", "zip", "enumerate", "reversed", "partial", "replace", "_replace"})
"""Functions whose result holds their arguments; a class does, too."""
_STORING = frozenset({"append", "appendleft", "add", "extend", "insert", "setdefault", "update", "put", "setattr"})
"""Methods after which the object holds the arguments."""
_TAKING = frozenset({"items", "values", "get", "pop", "popleft", "copy"})
"""Methods whose result the object holds."""
ARRAY_ATTRIBUTES = frozenset({"T", "mT", "real", "imag", "at", "shape", "dtype", "ndim", "size"})
"""Attributes of an array, which are no other names of it."""
OBJECTS = frozenset({"self", "cls"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Holder:
    """A variable or object that holds the array, besides the argument of the call."""

    node: cst.CSTNode
    """The expression by which it came to hold the array."""
    text: str
    name: str = ""
    """The variable, or that from which the object is reached; empty for an object without a name."""
    is_array: bool = False
    """Whether the variable is the array itself, and not an object that has it."""
    derived: cst.CSTNode | None = None
    """The statement `saved = r`, if the variable got the array by it or gave it by it."""


def is_self(node: cst.CSTNode) -> bool:
    """Returns whether an expression is `self` or `cls`: the object or class of a method."""
    return isinstance(node, cst.Name) and node.value in OBJECTS


def is_part(file: SourceFile, value: cst.Subscript) -> bool:
    """Returns whether a subscript takes an element of a dict, tuple or list. A subscript of an array makes a new array."""
    return bool(find_container(file, value))


def find_container(file: SourceFile, value: cst.Subscript) -> str:
    """Returns the kind of container from which a subscript takes an element: `dict`, `list` or `tuple`.

    Empty if the source does not show the kind, or if the container is an array.
    """
    indices = [one.slice.value for one in value.slice if isinstance(one.slice, cst.Index)]
    if len(indices) != len(value.slice):
        return ""
    if any(isinstance(one, cst.SimpleString | cst.FormattedString) for one in indices):
        return "dict"
    if isinstance(value.value, cst.Subscript) and is_part(file, value.value):
        return "dict" if _is_key(file, indices[0], value.value) else "list"
    kind = _find_kind(file, value.value)
    return kind or ("dict" if _is_key(file, indices[0], value.value) else "")


def _is_key(file: SourceFile, index: cst.BaseExpression, container: cst.BaseExpression) -> bool:
    """Returns whether an index is the variable of a loop over the keys of a dict, such as `for k, w in p.items():`. In
    `for k in g:` it is one if the loop's function has `g[k]` as well: an element of a sequence is no index of the sequence.
    """
    if not isinstance(index, cst.Name):
        return False
    text = file.module.code_for_node(container)
    keys = {f"{text}.keys()", f"{text}.items()"}
    subscripts = {file.module.code_for_node(one) for one in file.find(cst.Subscript, file.find_function(index))}
    for binding in find_variable(file, index, index.value).bindings:
        for parent in file.list_parents(binding):
            if isinstance(parent, cst.For | cst.CompFor):
                iterated = file.module.code_for_node(parent.iter)
                if isinstance(parent.iter, cst.Name | cst.Attribute) and f"{iterated}[{index.value}]" in subscripts:
                    return True
                return iterated in keys or (
                    isinstance(parent.iter, cst.Tuple | cst.List)
                    and all(isinstance(one.value, cst.SimpleString) for one in parent.iter.elements)
                )
            if isinstance(parent, cst.BaseStatement):
                break
    return False


_KINDS: dict[str, tuple[str, ...]] = {
    "dict": ("dict", "Dict", "defaultdict", "MutableMapping"),
    "list": ("list", "List", "MutableSequence"),
    "tuple": ("tuple", "Tuple"),
}
"""The names of types that say what a container is."""


def _find_kind(file: SourceFile, container: cst.BaseExpression) -> str:
    """Returns what all that is assigned to a variable or attribute makes of it; empty if that is unknown or not the same."""
    if isinstance(container, cst.Name):
        places: list[cst.CSTNode] = [*find_variable(file, container, container.value).bindings]
    else:
        text = file.module.code_for_node(container)
        targets = [*file.find(cst.AssignTarget), *file.find(cst.AnnAssign)]
        places = [one.target for one in targets if text in _name_target(file, one.target)]
    kinds = {_find_assigned_kind(file, one) for one in places}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return kind or _find_used_kind(file, container)


_METHODS: dict[str, tuple[str, ...]] = {
    "dict": ("items", "keys", "values", "setdefault"),
    "list": ("append", "extend", "insert"),
}


def _find_used_kind(file: SourceFile, container: cst.BaseExpression) -> str:
    """Returns what the uses of a variable or attribute make of it: no array has keys, and no element of a JAX array can be
    assigned.
    """
    text = file.module.code_for_node(container)
    within = file.find_function(container) if isinstance(container, cst.Name) else None
    for one in file.find(cst.Attribute, within):
        kind = next((kind for kind, names in _METHODS.items() if one.attr.value in names), "")
        if kind and file.module.code_for_node(one.value) == text:
            return kind
    for one in file.find(cst.Subscript, within):
        if file.module.code_for_node(one.value) != text or len(one.slice) != 1:
            continue
        index = one.slice[0].slice
        is_text = isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString | cst.FormattedString)
        if is_text or isinstance(next(file.list_parents(one)), cst.AssignTarget):
            return "dict"
    return ""


def _name_target(file: SourceFile, target: cst.BaseExpression) -> tuple[str, ...]:
    text = file.module.code_for_node(target)
    return (text,) if file.find_class(target) is None else (text, f"self.{text}")


def _find_assigned_kind(file: SourceFile, target: cst.CSTNode) -> str:
    for parent in file.list_parents(target):
        match parent:
            case cst.Param(star="*"):
                return "tuple"
            case cst.Param(star="**"):
                return "dict"
            case cst.Param(annotation=annotation) | cst.AnnAssign(annotation=annotation) if annotation is not None:
                return _read_kind(annotation.annotation)
            case cst.Assign(value=value) if isinstance(next(file.list_parents(target)), cst.AssignTarget):
                return _find_made_kind(file, target, value)
            case cst.BaseStatement():
                return ""
            case _:
                pass
    return ""


def _find_made_kind(file: SourceFile, target: cst.CSTNode, value: cst.BaseExpression) -> str:
    match value:
        case cst.Dict() | cst.DictComp():
            return "dict"
        case cst.List() | cst.ListComp():
            return "list"
        case cst.Tuple():
            return "tuple"
        case cst.Call(func=function):
            return _read_kind(function)
        case cst.Name() if not isinstance(target, cst.Name) or value.value != target.value:
            return _find_kind(file, value)
        case _:
            return ""


def _read_kind(node: cst.BaseExpression) -> str:
    name = get_name(node.value if isinstance(node, cst.Subscript) else node)
    return next((kind for kind, names in _KINDS.items() if name in names), "")


def list_holders(file: SourceFile, call: cst.Call, variable: SourceVariable) -> list[Holder]:
    """Returns all variables and objects that may hold the array of a variable when the call runs."""
    found: list[Holder] = []
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
            for holder in follow_array(file, read)
        ]
        nodes += [
            holder
            for binding in one.bindings
            if start is None or file.get_lines(binding)[0] >= file.get_lines(start)[0]
            for holder in _list_origins(file, binding, call)
        ]
        for holder in nodes:
            found.append(holder if one is variable else _as_remote(holder, is_array=is_array and holder.is_array))
            if holder.name and holder.name not in seen and holder.name not in OBJECTS:
                seen.add(holder.name)
                held = find_variable(file, holder.node, holder.name)
                pending.append((held, is_array and holder.is_array, one))
    unique = {(one.text, one.name): one for one in reversed(found)}
    return [
        one
        for one in reversed([*unique.values()])
        if one.name != variable.name or not (one.is_array or one.text == one.name)  # the variable itself
    ]


def list_part_holders(file: SourceFile, call: cst.Call, value: cst.Attribute | cst.Subscript) -> list[Holder]:
    """Returns the variables and objects that may hold the same array as a part of an object, such as `self.r`.

    They got the array from this part, or the part got it from them. The object itself is left out. Only the function
    around the call is searched.
    """
    text, function = file.module.code_for_node(value), file.find_function(call)
    root = describe_part(file, value)
    found: list[Holder] = []
    for kind in (cst.Attribute, cst.Subscript):
        for one in file.find(kind, function):
            if file.module.code_for_node(one) != text or not is_before(file, one, call):
                continue
            parent = next(file.list_parents(one))
            if not isinstance(parent, cst.AssignTarget):
                found += follow_array(file, one)
                continue
            assign = next(file.list_parents(parent))
            line = next(file.list_parents(assign))
            if isinstance(assign, cst.Assign):
                found += list_leaves(file, assign.value, True, line if len(assign.targets) == 1 else None)
    if root.name and root.name not in OBJECTS:
        for binding in find_variable(file, value, root.name).bindings:
            parent = next(file.list_parents(binding))
            assign = next(file.list_parents(parent))
            if isinstance(parent, cst.AssignTarget) and isinstance(assign, cst.Assign):
                line = next(file.list_parents(assign))
                found += _list_made_of(file, assign.value, value, line if len(assign.targets) == 1 else None)
    unique = {(one.text, one.name): one for one in reversed(found)}
    return [one for one in reversed([*unique.values()]) if one.text != text and one.name != root.name]


def _list_made_of(
    file: SourceFile, made: cst.BaseExpression, part: cst.Attribute | cst.Subscript, derived: cst.CSTNode | None
) -> Iterator[Holder]:
    """Yields the objects from which an expression, such as a dict, takes the array that becomes its part `part`."""
    key = part.attr.value if isinstance(part, cst.Attribute) else ""
    if isinstance(part, cst.Subscript) and len(part.slice) == 1 and isinstance(part.slice[0].slice, cst.Index):
        index = part.slice[0].slice.value
        key = str(index.evaluated_value) if isinstance(index, cst.SimpleString | cst.Integer) else ""
    is_direct = isinstance(part.value, cst.Name)
    match made:
        case cst.Dict(elements=elements) if key and is_direct:
            for one in elements:
                match one:
                    case cst.DictElement(key=cst.SimpleString() as name) if name.evaluated_value != key:
                        pass
                    case _:
                        yield from list_leaves(file, one.value, True, derived)
        case cst.List(elements=elements) | cst.Tuple(elements=elements) if key.isdecimal() and is_direct:
            for number, one in enumerate(elements):
                if str(number) == key or isinstance(one, cst.StarredElement):
                    yield from list_leaves(file, one.value, True, derived)
        case cst.Call(args=args):
            for one in args:
                if one.keyword is None or one.keyword.value == key or not key:
                    is_certain = one.keyword is not None and is_direct
                    yield from list_leaves(file, one.value, is_certain, derived if is_certain else None)
        case cst.Dict(elements=elements) | cst.List(elements=elements) | cst.Tuple(elements=elements):
            for one in elements:
                yield from list_leaves(file, one.value, False, None)
        case _:
            yield from list_leaves(file, made, False, None)


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


def _as_remote(holder: Holder, *, is_array: bool) -> Holder:
    return Holder(node=holder.node, text=holder.text, name=holder.name, is_array=is_array)


def describe_part(file: SourceFile, value: cst.BaseExpression) -> Holder:
    """Returns the holder for a part of an object, such as `self.r` or `pair[0]`. The name of the latter is `pair`."""
    root = value
    while isinstance(root, cst.Attribute | cst.Subscript | cst.Call):
        root = root.func if isinstance(root, cst.Call) else root.value
    name = root.value if isinstance(root, cst.Name) else ""
    return Holder(node=value, text=file.module.code_for_node(value), name=name)


def follow_array(file: SourceFile, read: cst.BaseExpression) -> Iterator[Holder]:
    """Yields the variables and objects that get the array where the expression `read` reads its variable."""
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
                yield Holder(node=parent, text=name, name=name, is_array=is_array)
            case cst.Arg():
                pass
            case cst.Call(func=function) if function is not child:
                name = get_name(function)
                if isinstance(next(file.list_parents(parent)), cst.Expr):  # whose result nobody uses
                    if name in _STORING and isinstance(function, cst.Attribute):
                        yield describe_part(file, function.value)
                    elif name in _STORING:
                        yield Holder(node=parent, text=file.module.code_for_node(parent))
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
                yield Holder(node=parent, text=text, name=own)
                return
            case _:
                return
        child = parent


def _list_targets(
    file: SourceFile, statement: cst.Assign | cst.AnnAssign, value: cst.CSTNode, read: cst.CSTNode, is_array: bool
) -> Iterator[Holder]:
    targets = [one.target for one in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    for target in targets:
        paired = _pair(target, value)
        if paired is not None:
            for part, own in paired:
                if any(one is read for one in file.find(cst.BaseExpression, own)):
                    yield from _describe_target(file, statement, part, own is read, is_single=False)
        else:
            yield from _describe_target(
                file, statement, target, is_array and value is read, is_single=len(targets) == 1
            )


def _describe_target(
    file: SourceFile, statement: cst.CSTNode, target: cst.BaseExpression, is_array: bool, *, is_single: bool
) -> Iterator[Holder]:
    match target:
        case cst.Name(value=name):
            derived = next(one for one in file.list_parents(statement) if isinstance(one, cst.BaseStatement))
            yield Holder(
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
            yield describe_part(file, target)


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


def _list_origins(file: SourceFile, binding: cst.Name, call: cst.CSTNode) -> Iterator[Holder]:
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
                            yield from list_leaves(file, own, part is binding, None)
                    return
                derived = next(one for one in file.list_parents(parent) if isinstance(one, cst.BaseStatement))
                single = is_whole and len(targets) == 1 and isinstance(value, cst.Name)
                yield from list_leaves(file, value, is_whole, derived if single else None)
                return
            case cst.AnnAssign(value=cst.BaseExpression() as value) | cst.NamedExpr(value=value):
                yield from list_leaves(file, value, is_whole, None)
                return
            case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value) if target is child:
                yield from list_leaves(file, value, False, None)
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


def list_leaves(
    file: SourceFile, value: cst.BaseExpression, is_array: bool, derived: cst.CSTNode | None
) -> Iterator[Holder]:
    """Yields the variables and objects from which an expression takes an array without computing a new one."""
    match value:
        case cst.Name(value=name):
            yield Holder(node=value, text=name, name=name, is_array=is_array, derived=derived)
        case cst.Attribute(attr=cst.Name(value=name)) if name not in ARRAY_ATTRIBUTES:
            yield describe_part(file, value)
        case cst.Subscript() if is_part(file, value):
            yield describe_part(file, value)
        case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
            yield from list_leaves(file, one, is_array, None)
            yield from list_leaves(file, other, is_array, None)
        case cst.NamedExpr(target=cst.Name() as target, value=inner):
            yield from list_leaves(file, target, is_array, None)
            yield from list_leaves(file, inner, is_array, None)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for one in elements:
                yield from list_leaves(file, one.value, False, None)
        case cst.Call(func=function, args=args):
            name = get_name(function)
            if name in _IDENTITIES or name in _KEEPING or _may_return_argument(file, name):
                for one in args:
                    yield from list_leaves(file, one.value, is_array and name not in _KEEPING, None)
            elif name in _TAKING and isinstance(function, cst.Attribute):
                yield describe_part(file, function.value)
        case _:
            return
