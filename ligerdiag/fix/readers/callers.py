"""The calls of a function in the user's project: by its name, through an import, as a method, through `jax.jit`."""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.readers.array_names import plan_new_contents
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

_WRAPPERS = frozenset({"jit", "checkpoint", "remat", "named_call", "named_scope"})
"""Functions of JAX that return a function with the same arguments and results."""
_FORMS = frozenset({"out_shardings", "out_axes", "static_argnames"})
"""Keywords of theirs that give each result a meaning, or each argument another place."""
_CALL = "__call__"


class UnreachedCallerError(CannotFixError):
    """Raised if a caller may read the old contents: a change that also gives callers the new ones may help."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Caller:
    """A call of a function, or another use of it."""

    file: SourceFile
    node: cst.CSTNode
    call: cst.Call | None
    """The call; None if the function is passed on."""
    first: int = 0
    """Position of the parameter that gets the first positional argument: 1 for a method of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A function whose callers may read the array that some of its parameters held before a kernel overwrote it."""

    file: SourceFile
    function: cst.FunctionDef
    parameters: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    """Parameters of which a part is that array."""


def list_own_parameters(function: cst.FunctionDef) -> list[str]:
    """Returns the names of a function's parameters, those with `*` left out."""
    parts = function.params
    return [one.name.value for one in (*parts.posonly_params, *parts.params, *parts.kwonly_params)]


def name_function(file: SourceFile, function: cst.FunctionDef) -> str:
    """Returns the name of a function, with that of its class in front if it is a method."""
    owner = next((one for one in file.list_parents(function) if isinstance(one, cst.ClassDef | cst.FunctionDef)), None)
    name = function.name.value
    return f"{owner.name.value}.{name}" if isinstance(owner, cst.ClassDef) else name


def find_argument(caller: Caller, function: cst.FunctionDef, parameter: str) -> cst.BaseExpression | None:
    """Returns the argument that a call passes for a parameter; None if it passes none. Raises CannotFixError if the
    arguments are unpacked, so that it is unknown.
    """
    assert caller.call is not None
    named = next((one for one in caller.call.args if one.keyword is not None and one.keyword.value == parameter), None)
    if named is not None:
        return named.value
    place = list_own_parameters(function).index(parameter) - caller.first
    for number, one in enumerate(caller.call.args):
        if one.star and (one.star == "**" or number <= place):
            place_text = caller.file.render_place(caller.call)
            raise CannotFixError(f"the arguments of the call are unpacked with `{one.star}`{place_text}")
    given = [one for one in caller.call.args if one.keyword is None and not one.star]
    return given[place].value if 0 <= place < len(given) else None


def find_reader(project: Project, handed: Handed, depth: int) -> str:
    """Returns why a caller of the function, or at most `depth` callers further up, may read the old contents; empty if
    none does.
    """
    name = name_function(handed.file, handed.function)
    for caller in list_callers(project, handed.file, handed.function):
        if caller.call is None:
            continue
        parameters: list[str] = []
        containers: list[str] = []
        for parameter in (*handed.parameters, *handed.containers):
            try:
                value = find_argument(caller, handed.function, parameter)
                if value is None:
                    continue
                plan = plan_new_contents(caller.file, caller.call, value, writer=name, hands_up=False)
            except CannotFixError as error:
                return str(error)
            if plan.name != "_":
                text = caller.file.module.code_for_node(value)
                return (
                    f"`{text}` would keep the old contents of the array that `{name}` overwrites"
                    f"{caller.file.render_place(caller.call)}"
                )
            is_part = parameter in handed.containers
            containers += (*plan.containers, *(plan.parameters if is_part else ()))
            parameters += () if is_part else plan.parameters
        function = caller.file.find_function(caller.call)
        if depth > 0 and function is not None and (parameters or containers):
            further = Handed(
                file=caller.file, function=function, parameters=tuple(parameters), containers=tuple(containers)
            )
            if reason := find_reader(project, further, depth - 1):
                return reason
    return ""


def list_callers(project: Project, home: SourceFile, function: cst.FunctionDef) -> list[Caller]:
    """Returns each use of a function in the project: its calls, and where it is passed on."""
    owner = next(home.list_parents(function), None)
    owner = (
        next((one for one in home.list_parents(owner) if not isinstance(one, cst.Decorator)), None) if owner else None
    )
    callers: list[Caller] = []
    if isinstance(owner, cst.ClassDef):
        for file in project.find_users(owner.name.value, home):
            callers += _list_method_calls(file, home, owner, function)
        return callers
    is_local = home.find_function(function) is not None
    for file in [home] if is_local else project.find_users(function.name.value, home):
        own = file is home  # there the function has its own name
        modules = frozenset[str]() if own else project.find_modules(function.name.value, home)
        for node in _list_references(file, function.name.value, modules):
            callers += _describe_use(file, node, set())
    return callers


def _list_references(file: SourceFile, name: str, modules: frozenset[str]) -> Iterator[cst.CSTNode]:
    """Yields the expressions that mean a function in a file. modules: last names of the modules that it is imported from;
    empty in the file that defines it.
    """
    names, paths = _list_imported(file, name, modules) if modules else ({name}, set[str]())
    for reference in file.find(cst.Name):
        if reference.value not in names:
            continue
        parent = next(file.list_parents(reference))
        if isinstance(parent, cst.FunctionDef | cst.ClassDef) and parent.name is reference:
            continue
        if isinstance(parent, cst.Attribute) and parent.attr is reference:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is reference:
            continue
        if any(
            isinstance(one, cst.ImportFrom | cst.ImportAlias | cst.AssignTarget) for one in file.list_parents(reference)
        ):
            continue
        yield reference
    for one in file.find(cst.Attribute):
        if one.attr.value == name and file.module.code_for_node(one.value) in paths:
            yield one


def _list_imported(file: SourceFile, name: str, modules: frozenset[str]) -> tuple[set[str], set[str]]:
    """Returns the names that a file gives to a function, and the texts by which it reaches modules that have it."""
    names, paths = set[str](), set[str]()
    for statement in file.find(cst.ImportFrom):
        is_home = statement.module is not None and get_name(statement.module) in modules
        if isinstance(statement.names, cst.ImportStar):
            names |= {name} if is_home else set[str]()
            continue
        for alias in statement.names:
            if alias.evaluated_name == name and (is_home or statement.module is None):
                names.add(alias.evaluated_alias or name)
            if alias.evaluated_name in modules:
                paths.add(alias.evaluated_alias or alias.evaluated_name)
    for statement in file.find(cst.Import):
        paths |= {one.evaluated_alias or one.evaluated_name for one in statement.names if get_name(one.name) in modules}
    return names, paths


def _describe_use(file: SourceFile, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Caller]:
    """Yields the calls that a reference to a function leads to."""
    parent = next(file.list_parents(node))
    if isinstance(parent, cst.Call) and parent.func is node:
        yield Caller(file=file, node=parent, call=parent)
        return
    if isinstance(parent, cst.Arg):
        call = next(file.list_parents(parent))
        assert isinstance(call, cst.Call)
        if get_name(call.func) in _WRAPPERS and call.args and call.args[0] is parent and not _gives_form(call):
            yield from _describe_use(file, call, seen)
            return
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1 and parent not in seen:
        target = parent.targets[0].target
        seen.add(parent)
        if isinstance(target, cst.Name):
            for one in file.find(cst.Name):
                above = next(file.list_parents(one))
                if (
                    one.value == target.value
                    and one is not target
                    and not (
                        (isinstance(above, cst.Attribute) and above.attr is one)
                        or (isinstance(above, cst.Arg) and above.keyword is one)
                        or isinstance(above, cst.AssignTarget)
                    )
                ):
                    yield from _describe_use(file, one, seen)
            return
    yield Caller(file=file, node=node, call=None)


def _gives_form(call: cst.Call) -> bool:
    return any(one.keyword is not None and one.keyword.value in _FORMS for one in call.args)


def changes_results(decorator: cst.Decorator) -> bool:
    """Returns whether a decorator may give the results of a function a meaning, or a caller another form of them."""
    value = decorator.decorator
    if isinstance(value, cst.Call):
        if get_name(value.func) == "partial" and value.args:
            return get_name(value.args[0].value) not in _WRAPPERS or _gives_results_form(value)
        return get_name(value.func) not in _WRAPPERS or _gives_results_form(value)
    return get_name(value) not in (*_WRAPPERS, "staticmethod", "inline")


def _gives_results_form(call: cst.Call) -> bool:
    return any(one.keyword is not None and one.keyword.value in ("out_shardings", "out_axes") for one in call.args)


def _list_method_calls(
    file: SourceFile, home: SourceFile, owner: cst.ClassDef, method: cst.FunctionDef
) -> Iterator[Caller]:
    """Yields the calls of a method on objects that are made of the class, or are `self` in it."""
    name, is_static = method.name.value, any(get_name(one.decorator) == "staticmethod" for one in method.decorators)
    first = 0 if is_static else 1
    instances = _list_instances(file, owner.name.value)
    for call in file.find(cst.Call):
        function = call.func
        if name == _CALL:
            if file.module.code_for_node(function) in instances or _is_made(function, owner.name.value):
                yield Caller(file=file, node=call, call=call, first=first)
            continue
        if not isinstance(function, cst.Attribute) or function.attr.value != name:
            continue
        receiver = file.module.code_for_node(function.value)
        inner = next((one for one in file.list_parents(call) if isinstance(one, cst.ClassDef)), None)
        if get_name(function.value) == owner.name.value:
            yield Caller(file=file, node=call, call=call)
        elif (
            receiver in instances
            or _is_made(function.value, owner.name.value)
            or (receiver == "self" and (inner is owner or (inner is not None and _derives(inner, owner.name.value))))
        ):
            yield Caller(file=file, node=call, call=call, first=first)
    for one in file.find(cst.Attribute):
        parent = next(file.list_parents(one))
        if one.attr.value == name and not (isinstance(parent, cst.Call) and parent.func is one):
            receiver = file.module.code_for_node(one.value)
            if receiver in instances or receiver == owner.name.value or (receiver == "self" and file is home):
                yield Caller(file=file, node=one, call=None)


def _derives(inner: cst.ClassDef, name: str) -> bool:
    return any(get_name(one.value) == name for one in inner.bases)


def _is_made(value: cst.BaseExpression, name: str) -> bool:
    return isinstance(value, cst.Call) and get_name(value.func) == name


def _list_instances(file: SourceFile, name: str) -> set[str]:
    """Returns the texts of the variables and attributes that get an object of the class."""
    found: set[str] = set()
    for one in file.find(cst.Assign):
        if _is_made(one.value, name):
            found |= {file.module.code_for_node(target.target) for target in one.targets}
    for one in file.find(cst.AnnAssign):
        if get_name(one.annotation.annotation) == name or (one.value is not None and _is_made(one.value, name)):
            found.add(file.module.code_for_node(one.target))
    for one in file.find(cst.Param):
        if one.annotation is not None and get_name(one.annotation.annotation) == name:
            found.add(one.name.value)
    return found
