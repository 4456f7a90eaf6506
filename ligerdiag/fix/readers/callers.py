"""Finds the callers of a function in the user's project, and the callers that may read an array which the function
overwrites.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.readers.array_holders import OBJECTS, describe_part
from ligerdiag.fix.readers.array_names import plan_new_contents
from ligerdiag.fix.readers.function_uses import WRAPPERS, Caller, list_function_callers, list_texts_that_name
from ligerdiag.fix.readers.method_uses import list_method_callers, list_unknown_receivers
from ligerdiag.fix.readers.name_scopes import find_variable, is_own_argument, is_parameter
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name


class UnreachedCallerError(CannotFixError):
    """Raised if a caller would still read the old contents of an overwritten array.

    A change that also returns the new contents to the callers may help.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A function and those of its parameters whose arrays a kernel overwrites. Callers may read these arrays later."""

    file: SourceFile
    function: cst.FunctionDef
    parameters: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    """Parameters of which a part, such as an element, is that array."""
    updated: tuple[str, ...] = ()
    """Parameters to a part of which the function assigns the new contents. A caller's object has them as well, unless JAX
    passes the function a copy of the object, as `jax.jit` does.
    """


def list_own_parameters(function: cst.FunctionDef) -> list[str]:
    """Returns the names of a function's parameters, without `*args` and `**keywords`."""
    parts = function.params
    return [one.name.value for one in (*parts.posonly_params, *parts.params, *parts.kwonly_params)]


def name_function(file: SourceFile, function: cst.FunctionDef) -> str:
    """Returns the name of a function, or of a method with its class, such as `Model.step`."""
    owner, name = file.find_class(function), function.name.value
    return name if owner is None else f"{owner.name.value}.{name}"


def is_used_as_value(caller: Caller, function: cst.FunctionDef, parameters: Iterable[str]) -> bool:
    """Returns whether a use of a function does not show the arguments of these parameters.

    That is so if the function is passed as a value, or if a `partial` gives it one of these arguments.
    """
    places = [list_own_parameters(function).index(one) for one in parameters]
    is_bound = any(place < caller.first for place in places) or not set(parameters).isdisjoint(caller.bound)
    return caller.call is None or is_bound


def find_argument(caller: Caller, function: cst.FunctionDef, parameter: str) -> cst.BaseExpression | None:
    """Returns the argument that a call passes for a parameter, or None if it passes none.

    Raises CannotFixError if the call unpacks its arguments with `*` or `**`. The source then does not show which argument
    the parameter gets.
    """
    assert caller.call is not None
    named = next((one for one in caller.call.args if one.keyword is not None and one.keyword.value == parameter), None)
    if named is not None:
        return named.value
    place = list_own_parameters(function).index(parameter) - caller.first
    for number, one in enumerate(caller.call.args):
        if one.star and (one.star == "**" or number <= place):
            place_text = caller.file.render_place(caller.call)
            raise CannotFixError(f"the source does not show the arguments that `{one.star}` unpacks{place_text}")
    given = [one for one in caller.call.args if one.keyword is None and not one.star]
    return given[place].value if 0 <= place < len(given) else None


def find_reader(project: Project, handed: Handed, depth: int) -> str:
    """Returns a text that says which caller of the function may read the old contents, and why. Empty if no caller does.

    Callers of callers count as well, up to `depth` levels.
    """
    name = name_function(handed.file, handed.function)
    every = (*handed.parameters, *handed.containers, *handed.updated)
    for caller in list_callers(project, handed.file, handed.function):
        if caller.call is None or is_used_as_value(caller, handed.function, every):
            if not is_own_argument(caller.file, caller.node):
                text = caller.file.module.code_for_node(caller.node)
                project.unseen[f"`{text}`{caller.file.render_place(caller.node)}"] = None
            continue
        parameters: list[str] = []
        containers: list[str] = []
        updated: list[str] = []
        is_direct = caller.call.func is caller.reference and not handed.function.decorators
        for parameter in every:
            try:
                value = find_argument(caller, handed.function, parameter)
                if value is None:
                    continue
                if parameter in handed.updated and is_direct:
                    updated += _list_own(caller, value)
                    continue
                plan = plan_new_contents(project, caller.file, caller.call, value, writer=name, hands_up=False)
            except CannotFixError as error:
                return str(error)
            if plan.name != "_":
                text = caller.file.module.code_for_node(value)
                return (
                    f"`{text}` would keep the old contents of the array that `{name}` overwrites"
                    f"{caller.file.render_place(caller.call)}"
                )
            is_part = parameter in (*handed.containers, *handed.updated)
            containers += (*plan.containers, *(plan.parameters if is_part else ()))
            parameters += () if is_part else plan.parameters
        function = caller.file.find_function(caller.call)
        if depth > 0 and function is not None and (parameters or containers or updated):
            further = Handed(
                file=caller.file,
                function=function,
                parameters=tuple(parameters),
                containers=tuple(containers),
                updated=tuple(updated),
            )
            if reason := find_reader(project, further, depth - 1):
                return reason
    return ""


def _list_own(caller: Caller, value: cst.BaseExpression) -> list[str]:
    """Returns the name of an argument if it is a parameter of the caller's function, or a part of one."""
    name = describe_part(caller.file, value).name
    is_own = name and is_parameter(caller.file, find_variable(caller.file, value, name)) and name not in OBJECTS
    return [name] if is_own else []


def list_callers(project: Project, home: SourceFile, function: cst.FunctionDef) -> list[Caller]:
    """Returns each use of a function in the project once.

    A use is a call, or a place where the function is passed as a value.
    """
    owner = home.find_class(function)
    if owner is None:
        found = list_function_callers(project, home, function)
    else:
        found = list_method_callers(project, home, owner, function)
    return [*{one.node: one for one in found}.values()]


def list_unseen(project: Project, home: SourceFile, function: cst.FunctionDef) -> list[str]:
    """Returns the places that may call the function in a way that the source does not show, such as through `getattr`."""
    owner = home.find_class(function)
    found = [*list_texts_that_name(project, function.name.value, home)]
    if owner is not None:
        found += list_unknown_receivers(project, home, owner, function)
    return [*dict.fromkeys([*found, *project.unread])]


def changes_results(decorator: cst.Decorator) -> bool:
    """Returns whether a decorator may change or interpret the results of a function.

    Additional results would then break the decorator.
    """
    value = decorator.decorator
    if isinstance(value, cst.Call):
        if get_name(value.func) == "partial" and value.args:
            return get_name(value.args[0].value) not in WRAPPERS or _gives_results_form(value)
        return get_name(value.func) not in WRAPPERS or _gives_results_form(value)
    return get_name(value) not in (*WRAPPERS, "staticmethod", "inline")


def _gives_results_form(call: cst.Call) -> bool:
    return any(one.keyword is not None and one.keyword.value in ("out_shardings", "out_axes") for one in call.args)
