"""Makes functions return the new contents of an overwritten array to those of their callers that may read the array."""

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.readers.array_names import NOWHERE, NewContents, plan_new_contents
from ligerdiag.fix.readers.callers import (
    Handed,
    UnreachedCallerError,
    find_argument,
    find_reader,
    is_used_as_value,
    list_callers,
    list_unseen,
    name_function,
)
from ligerdiag.fix.readers.calls_beside import list_unchanged
from ligerdiag.fix.readers.function_uses import Caller
from ligerdiag.fix.readers.method_uses import find_override
from ligerdiag.fix.readers.name_scopes import is_own_argument
from ligerdiag.fix.results.bound_results import Returned, as_call, bind_results
from ligerdiag.fix.results.caller_remarks import describe_kept, list_dropping, record_changed, warn_of_tracer
from ligerdiag.fix.results.kept_functions import keep_function, refer_to
from ligerdiag.fix.results.return_statements import change_returns
from ligerdiag.fix.source_file import CannotFixError, SourceFile


def hand_up(project: Project, file: SourceFile, call: cst.CSTNode, plans: Sequence[NewContents], depth: int) -> None:
    """Makes functions return the new contents of their parameters to those callers that may read them.

    plans: the variables that get the new contents of each overwritten argument. depth: how many levels of callers may be
    changed, counted from the innermost caller. Raises UnreachedCallerError if a caller would keep the old contents, and
    CannotFixError if a function cannot return more.
    """
    function = file.find_function(call)
    if function is None:
        return
    parameters = tuple(dict.fromkeys(name for plan in plans for name in plan.parameters))
    containers = tuple(dict.fromkeys(name for plan in plans for name in plan.containers))
    updated = tuple(dict.fromkeys(name for plan in plans for name in plan.updated))
    if not parameters and not containers and not updated:
        return
    whole = Handed(file=file, function=function, parameters=parameters, containers=containers, updated=updated)
    if depth == 0:
        if reason := find_reader(project, whole, _MOST_CALLERS):
            raise UnreachedCallerError(reason)
        return
    if reason := find_reader(project, replace(whole, parameters=()), 3):
        raise CannotFixError(reason)
    wanted = tuple(name for name in parameters if _is_wanted(project, file, function, name))
    if wanted:
        _return_more(project, Handed(file=file, function=function, parameters=wanted), depth)


_MOST_CALLERS = 8
"""Number of callers of callers that are searched for a reader."""


def _is_wanted(project: Project, file: SourceFile, function: cst.FunctionDef, parameter: str) -> bool:
    return bool(find_reader(project, Handed(file=file, function=function, parameters=(parameter,)), _MOST_CALLERS))


def _return_more(project: Project, handed: Handed, depth: int) -> None:
    """Makes a function return the new contents of its parameters, and its callers use them."""
    file, function = handed.file, handed.function
    name = name_function(file, function)
    other = find_override(project, file, function)
    if other is not None:
        text = (
            f"`{name}` would have to return more, but an object may have the `{function.name.value}` of another class"
        )
        raise CannotFixError(f"{text}, `{other[1].name.value}`{other[0].render_place(other[1])}")
    project.not_changed |= dict.fromkeys(
        list_unchanged(project, file, function, handed.parameters, project.changed_calls)
    )
    returned = change_returns(file, function, handed.parameters)
    project.unseen |= dict.fromkeys(list_unseen(project, file, function))
    callers = list_callers(project, file, function)
    values = [one for one in callers if is_used_as_value(one, function, handed.parameters)]
    callers = [one for one in callers if one not in values]
    changed = _keep_function(project, handed, returned, callers, values, depth=depth) if values else callers
    plans: dict[tuple[SourceFile, cst.FunctionDef], tuple[Caller, list[NewContents]]] = {}
    for caller in callers:
        assert caller.call is not None
        text = caller.file.module.code_for_node(caller.call.func)
        project.reached.add(f"`{text}`{caller.file.render_place(caller.call.func)}")
        if caller in changed:
            made = _change_caller(project, caller, handed, returned, depth - 1)
            record_changed(project, caller, handed, made)
            warn_of_tracer(project, caller.file, caller.call, made)
        else:
            made = _plan_all(project, caller, handed, depth - 1)
        outer = caller.file.find_function(caller.call)
        if outer is not None:
            plans.setdefault((caller.file, outer), (caller, []))[1].extend(made)
    for caller, made in plans.values():
        assert caller.call is not None
        hand_up(project, caller.file, caller.call, made, depth - 1)


def _keep_function(
    project: Project,
    handed: Handed,
    returned: Returned,
    callers: Sequence[Caller],
    values: Sequence[Caller],
    *,
    depth: int,
) -> list[Caller]:
    """Makes a new function return more, and keeps the former one for its uses as a value. Returns the callers that call the
    new one.
    """
    function = handed.function
    planned = [(one, _plan_all(project, one, handed, depth - 1)) for one in callers]
    wanting = {one.reference for one, plans in planned if any(plan.name != NOWHERE for plan in plans)}
    if not wanting:
        raise UnreachedCallerError(find_reader(project, handed, _MOST_CALLERS))
    kept: list[str] = []
    for one in values:
        text, place = one.file.module.code_for_node(one.node), one.file.render_place(one.node)
        if one.reference in wanting:
            name = name_function(handed.file, function)
            raise CannotFixError(f"`{name}` would have to return more, but it is passed as a value{place}")
        if not is_own_argument(one.file, one.node):
            project.unseen[f"`{text}`{place}"] = None
            kept.append(f"`{text}`{place}")
    kept += list_dropping(handed, [(one, plans) for one, plans in planned if one.reference not in wanting])
    project.kept_uses |= dict.fromkeys(kept)
    new = keep_function(project, handed.file, function, returned, handed.parameters)
    project.remarks[describe_kept(handed, new, kept)] = None
    refer = refer_to(project, handed.file, function, new)
    changed = [one for one in callers if one.reference in wanting]
    for one in {one.reference: one for one in changed}.values():
        refer(one.reference_file, one.reference)
    return changed


def _plan_all(project: Project, caller: Caller, handed: Handed, depth: int) -> list[NewContents]:
    """Returns, for each parameter of a function, the variables of a caller that get the new contents of its argument."""
    assert caller.call is not None
    name = name_function(handed.file, handed.function)
    plans: list[NewContents] = []
    for parameter in handed.parameters:
        value = find_argument(caller, handed.function, parameter)
        plans.append(
            NewContents() if value is None else plan(project, caller.file, caller.call, value, writer=name, depth=depth)
        )
    return plans


def _change_caller(
    project: Project, caller: Caller, handed: Handed, returned: Returned, depth: int
) -> list[NewContents]:
    """Makes a caller use what a function returns in addition. Returns where the new contents go."""
    file, call = caller.file, caller.call
    assert call is not None
    plans = _plan_all(project, caller, handed, depth)
    names = [one.name for one in plans]
    after = [line for one in plans for line in one.after]
    is_needed = any(one != NOWHERE for one in names)
    target = _find_target(file, call)
    if isinstance(target, cst.Expr) and not is_needed:
        return plans
    is_whole = isinstance(target, cst.Expr | cst.Tuple | cst.List) or (target is not None and returned is Returned.ONE)
    if not is_needed and not is_whole:
        _take_former(file, call, returned, len(names))
        return plans
    if target is None:
        _require_no_earlier_read(file, call, names)
    elif isinstance(target, cst.Name) and returned is Returned.SEQUENCE and _returns_tuple(handed):
        after = [f"{target.value} = tuple({target.value})", *after]
    bind_results(
        file,
        call,
        lambda node: node,
        returned,
        names,
        after=(lambda _: after) if after else None,
        is_tuple=_returns_tuple(handed),
    )
    return plans


def plan(
    project: Project, file: SourceFile, call: cst.Call, value: cst.BaseExpression, *, writer: str, depth: int
) -> NewContents:
    """Returns the variables that get the new contents of the argument `value` of a call.

    If a caller of the function around the call may be changed and may read the new contents, that function returns them,
    too.
    writer: as in `plan_new_contents`. depth: as in `hand_up`.
    """
    found = plan_new_contents(project, file, call, value, writer=writer, hands_up=False)
    outer = file.find_function(call)
    if outer is None:
        return found
    is_wanted = depth > 0 and any(_is_wanted(project, file, outer, one) for one in found.parameters)
    if isinstance(value, cst.Attribute | cst.Subscript) and found.containers and not is_wanted:
        is_wanted = bool(find_reader(project, Handed(file=file, function=outer, containers=found.containers), depth=3))
    return plan_new_contents(project, file, call, value, writer=writer, hands_up=True) if is_wanted else found


def _returns_tuple(handed: Handed) -> bool:
    file, function = handed.file, handed.function
    statements = [one for one in file.find(cst.Return, function) if file.find_function(one) is function]
    return any(isinstance(one.value, cst.Tuple) for one in statements)


def _require_no_earlier_read(file: SourceFile, call: cst.Call, names: Sequence[str]) -> None:
    """Raises CannotFixError if the statement of a call reads a variable left of the call: such a read would come after the
    call once that has a statement of its own.
    """
    for one in file.find(cst.BaseExpression, file.find_statement(call)):
        if one is call:
            return
        text = file.module.code_for_node(one)
        if text in names:
            raise CannotFixError(f"`{text}` is read before the call, in the same statement{file.render_place(call)}")


def _find_target(file: SourceFile, call: cst.Call) -> cst.CSTNode | None:
    """Returns the left side of the assignment whose right side is the call; for a call that is a statement of its own,
    that statement; None for any other call.
    """
    parent = next(file.list_parents(call))
    match parent:
        case cst.Expr():
            return parent
        case cst.Assign(targets=[cst.AssignTarget(target=target)]):
            return target
        case _:
            return None


def _take_former(file: SourceFile, call: cst.Call, returned: Returned, count: int) -> None:
    """Makes an expression use what a call returned before the `count` additional results: `f(x)[0]`, `f(x)[:-1]`."""

    def take(node: cst.CSTNode) -> cst.Subscript:
        inner = as_call(node)
        if returned is Returned.ONE:
            element = cst.Index(cst.Integer("0"))
        else:
            element = cst.Slice(lower=None, upper=cst.parse_expression(f"-{count}"))
        return cst.Subscript(
            value=inner.with_changes(lpar=(), rpar=()),
            slice=[cst.SubscriptElement(element)],
            lpar=inner.lpar,
            rpar=inner.rpar,
        )

    file.change(call, take)
