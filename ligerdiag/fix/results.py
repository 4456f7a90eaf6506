"""Gives variable names to the additional results of a changed call, in the function of the call and in its callers."""

from collections.abc import Callable, Sequence
from enum import Enum, auto

import libcst as cst

from ligerdiag.fix.call_arguments import append_element, make_tuple, shift, wrap
from ligerdiag.fix.call_site import OUTPUT_KEYWORDS, Project
from ligerdiag.fix.readers.array_names import NOWHERE, NewContents, plan_new_contents
from ligerdiag.fix.readers.callers import (
    Handed,
    UnreachedCallerError,
    changes_results,
    find_argument,
    find_reader,
    list_callers,
    list_unseen,
    name_function,
)
from ligerdiag.fix.readers.calls_beside import list_unchanged
from ligerdiag.fix.readers.function_uses import Caller
from ligerdiag.fix.readers.method_uses import find_override
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

_ARRAYS = frozenset({"Array", "ndarray"})
"""Names of types of arrays that say nothing about a shape."""
_TUPLES = frozenset({"tuple", "Tuple"})

type MakeCall = Callable[[cst.Call], cst.BaseExpression]


class Returned(Enum):
    """The form of a call's results before the change, such as one value or a tuple."""

    NOTHING = auto()
    ONE = auto()
    SEQUENCE = auto()


def bind_results(
    file: SourceFile,
    call: cst.Call,
    make: MakeCall,
    returned: Returned,
    names: Sequence[str],
    *,
    after: Callable[[str], Sequence[str]] | None = None,
    before: Sequence[str] = (),
    is_tuple: bool = True,
) -> list[str]:
    """Changes the statement of a call so that it keeps the call's additional results, which come after the present results.
    Returns the source texts of the names that get the call's results, including the additional results.

    make: function that returns the changed call. names: for each additional result, the name of the variable that gets the
    result. before: source lines to put before the statement. after: function that gets the source texts of all names and
    returns source lines to put after the call. is_tuple: whether the call returns several results as a tuple; false if it
    returns a list.
    """
    statement = file.find_statement(call)
    file.require_unchanged(statement)
    body = statement.body[0]
    match body:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if value is call:
            old = _list_targets(file, target, returned)
        case cst.Expr(value=value) if value is call:
            old = {Returned.NOTHING: [], Returned.ONE: [NOWHERE], Returned.SEQUENCE: [f"*{NOWHERE}"]}[returned]
        case _ if returned is Returned.NOTHING:
            raise CannotFixError(
                f"the call returns nothing, and its statement uses the result{file.render_place(call)}"
            )
        case _:
            return _take_out(file, call, make, returned, names, after=after, before=before, is_tuple=is_tuple)
    names = [NOWHERE if one in old else one for one in names]
    results = [*old, *names]
    file.change(call, lambda node: make(_as_call(node)))

    def finish() -> Sequence[str]:
        return after(", ".join(results)) if after else ()

    def rewrite(node: cst.CSTNode) -> cst.FlattenSentinel[cst.BaseStatement]:
        assert isinstance(node, cst.SimpleStatementLine)
        assign = node.body[0]
        assert isinstance(assign, cst.Assign | cst.Expr)
        if not results or (isinstance(assign, cst.Assign) and not names):
            changed = assign
        elif isinstance(assign, cst.Assign) and isinstance(target := assign.targets[0].target, cst.Tuple | cst.List):
            if returned is Returned.ONE:  # the one value is unpacked, and stays one value beside the additional ones
                changed = _assign(results, assign.value, assign)
                return _surround(node.with_changes(body=[_wrap(file, statement, changed)]), before, finish())
            target = append_element(target, *names)
            changed = assign.with_changes(targets=[assign.targets[0].with_changes(target=target)])
        else:
            changed = _assign(results, assign.value, assign)
        changed = _wrap(file, statement, changed)
        return _surround(node.with_changes(body=[changed]), before, finish())

    file.change(statement, rewrite)
    return results


def _is_outputs(argument: cst.Arg) -> bool:
    return argument.keyword is not None and argument.keyword.value in OUTPUT_KEYWORDS


def _list_targets(file: SourceFile, target: cst.BaseExpression, returned: Returned) -> list[str]:
    if isinstance(target, cst.Tuple | cst.List):
        elements = [file.module.code_for_node(one.value) for one in target.elements]
        if returned is Returned.ONE:
            return [f"({', '.join(elements)}{',' if len(elements) == 1 else ''})"]
        return elements
    text = file.module.code_for_node(target)
    return [f"*{text}" if returned is Returned.SEQUENCE else text]


def _as_call(node: cst.CSTNode) -> cst.Call:
    assert isinstance(node, cst.Call)
    return node


def _assign(results: Sequence[str], value: cst.BaseExpression, old: cst.Assign | cst.Expr | None = None) -> cst.Assign:
    target = ", ".join(results)
    target += "," if len(results) == 1 and results[0].startswith("*") else ""
    made = cst.ensure_type(cst.parse_statement(f"{target} = 0"), cst.SimpleStatementLine).body[0]
    assign = cst.ensure_type(made, cst.Assign).with_changes(value=value)
    semicolon = cst.MaybeSentinel.DEFAULT if old is None else old.semicolon
    return assign.with_changes(semicolon=semicolon)


def _wrap(file: SourceFile, statement: cst.CSTNode, assign: cst.Assign | cst.Expr) -> cst.Assign | cst.Expr:
    """Returns the statement with the arguments of its call on lines of their own, if it would be wider than the file."""
    if not isinstance(assign.value, cst.Call):
        return assign
    before = len(file.module.code_for_node(assign.with_changes(value=cst.Name("x")))) - 1
    indentation = file.get_column(statement)
    call = assign.value
    if isinstance(statement, cst.SimpleStatementLine) and isinstance(own := statement.body[0], cst.Assign | cst.Expr):
        old = file.get_column(own.value)
        call = shift(call, indentation, old, indentation + before - old)
    return assign.with_changes(value=wrap(call, indentation + before, file))


def _surround(
    statement: cst.SimpleStatementLine, before: Sequence[str], after: Sequence[str]
) -> cst.FlattenSentinel[cst.BaseStatement]:
    first = [cst.parse_statement(line) for line in before]
    if first:
        first[0] = first[0].with_changes(leading_lines=statement.leading_lines)
        statement = statement.with_changes(leading_lines=())
    return cst.FlattenSentinel([*first, statement, *(cst.parse_statement(line) for line in after)])


def _take_out(
    file: SourceFile,
    call: cst.Call,
    make: MakeCall,
    returned: Returned,
    names: Sequence[str],
    *,
    after: Callable[[str], Sequence[str]] | None,
    before: Sequence[str],
    is_tuple: bool,
) -> list[str]:
    """Puts the call into a statement of its own in front of the one that contains it."""
    statement = file.find_statement(call)
    result = file.find_unused_name("result" if returned is Returned.ONE else "results", file.find_function(call))
    results = [result if returned is Returned.ONE else f"*{result}", *names]
    made: list[cst.BaseExpression] = []

    is_read_by_place = isinstance(next(file.list_parents(call)), cst.Subscript)

    def replace_call(node: cst.CSTNode) -> cst.BaseExpression:
        new = make(_as_call(node)).with_changes(lpar=(), rpar=())
        made.append(new)
        given = new.args if isinstance(new, cst.Call) else ()
        is_list = any(isinstance(one.value, cst.List) for one in given if _is_outputs(one))
        if returned is not Returned.SEQUENCE or not is_tuple or is_list or is_read_by_place:
            return cst.Name(result)
        return cst.parse_expression(f"tuple({result})")  # a target with `*` gets a list

    def rewrite(node: cst.CSTNode) -> cst.FlattenSentinel[cst.BaseStatement]:
        assert isinstance(node, cst.SimpleStatementLine)
        assign = _wrap(file, statement, _assign(results, made[-1]))
        own = cst.SimpleStatementLine(body=[assign], leading_lines=node.leading_lines)
        if before:
            own = own.with_changes(leading_lines=())
        lines = [cst.parse_statement(line) for line in before]
        if lines:
            lines[0] = lines[0].with_changes(leading_lines=node.leading_lines)
        behind = [cst.parse_statement(line) for line in (after(", ".join(results)) if after else ())]
        return cst.FlattenSentinel([*lines, own, *behind, node.with_changes(leading_lines=())])

    file.change(call, replace_call)
    file.change(statement, rewrite)
    return results


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
    if not parameters and not containers:
        return
    whole = Handed(file=file, function=function, parameters=parameters, containers=containers)
    if depth == 0:
        if reason := find_reader(project, whole, _MOST_CALLERS):
            raise UnreachedCallerError(reason)
        return
    if containers and (reason := find_reader(project, Handed(file=file, function=function, containers=containers), 3)):
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
    returned = _change_returns(file, function, handed.parameters)
    project.unseen |= dict.fromkeys(list_unseen(project, file, function))
    plans: dict[tuple[SourceFile, cst.FunctionDef], tuple[Caller, list[NewContents]]] = {}
    for caller in list_callers(project, file, function):
        if caller.call is None:
            raise CannotFixError(
                f"`{name}` would have to return more, but it is passed as a value{caller.file.render_place(caller.node)}"
            )
        text = caller.file.module.code_for_node(caller.call.func)
        project.reached.add(f"`{text}`{caller.file.render_place(caller.call.func)}")
        made = _change_caller(project, caller, handed, returned, depth - 1)
        outer = caller.file.find_function(caller.call)
        if outer is not None:
            plans.setdefault((caller.file, outer), (caller, []))[1].extend(made)
    for caller, made in plans.values():
        assert caller.call is not None
        hand_up(project, caller.file, caller.call, made, depth - 1)


def _change_returns(file: SourceFile, function: cst.FunctionDef, parameters: Sequence[str]) -> Returned:
    name, place = name_function(file, function), file.render_place(function)
    if any(changes_results(one) for one in function.decorators):
        raise CannotFixError(f"`{name}` would have to return more, but a decorator may depend on its results{place}")
    if function.asynchronous is not None:
        raise CannotFixError(f"`{name}` would have to return more, but it is a coroutine{place}")
    if any(file.find_function(one) is function for one in file.find(cst.Yield, function)):
        raise CannotFixError(f"`{name}` would have to return more, but it is a generator{place}")
    statements = [one for one in file.find(cst.Return, function) if file.find_function(one) is function]
    if not statements:
        raise CannotFixError(f"`{name}` returns nothing{place}")
    kinds: set[Returned] = set()
    for statement in statements:
        file.require_unchanged(statement)
        if statement.value is None:
            raise CannotFixError(f"`{name}` returns nothing{file.render_place(statement)}")
        is_sequence = isinstance(statement.value, cst.Tuple | cst.List)
        kinds.add(Returned.SEQUENCE if is_sequence else Returned.ONE)
    if len(kinds) > 1:
        raise CannotFixError(f"`{name}` returns one value in one place and several in another{place}")

    def add(node: cst.CSTNode) -> cst.Return:
        assert isinstance(node, cst.Return)
        assert node.value is not None
        if isinstance(node.value, cst.Tuple | cst.List):
            return node.with_changes(value=append_element(node.value, *parameters))
        return node.with_changes(value=make_tuple(node.value, *parameters, parentheses=False))

    for statement in statements:
        file.change(statement, add)
    (kind,) = kinds
    if function.returns is not None:
        returns = extend_return_type(function, parameters, is_sequence=kind is Returned.SEQUENCE)
        file.change(function, lambda node: node.with_changes(returns=returns))
    return kind


def extend_return_type(
    function: cst.FunctionDef, parameters: Sequence[str], *, is_sequence: bool
) -> cst.Annotation | None:
    """Returns the annotation of a function that returns these parameters as well; None if there is none, or if the
    function does not say the types.

    The type of the new contents is that of the parameter, or, if it has none, that of the array which the function returned
    before.

    is_sequence: whether the function writes out a tuple or list in its `return`.
    """
    if function.returns is None:
        return None
    old = function.returns.annotation
    quote, value = _unquote(old)
    if value is None:
        return None
    types: list[cst.BaseExpression] = []
    is_open = False
    if not is_sequence:
        types.append(value)
    elif isinstance(value, cst.Subscript) and get_name(value.value) in _TUPLES:
        types += [one.slice.value for one in value.slice if isinstance(one.slice, cst.Index)]
        is_open = len(types) == 2 and isinstance(types[1], cst.Ellipsis)
    else:
        return None  # a list, or a name whose meaning is elsewhere
    added = [_find_type(function, name, types) for name in parameters]
    found = [one for one in added if one is not None]
    if len(found) < len(added):
        return None
    if is_open:
        is_same = all(_render_type(one) == _render_type(types[0]) for one in found)
        return function.returns if is_same else None
    if quote:
        found = [inner for one in found if (inner := _unquote(one)[1]) is not None]
        if len(found) < len(added):
            return None
    name = value.value if is_sequence and isinstance(value, cst.Subscript) else cst.Name("tuple")
    text = f"{_render_type(name)}[{', '.join(map(_render_type, [*types, *found]))}]"
    if quote and quote in text:
        return None
    return function.returns.with_changes(annotation=cst.parse_expression(f"{quote}{text}{quote}"))


def _find_type(
    function: cst.FunctionDef, parameter: str, returned: Sequence[cst.BaseExpression]
) -> cst.BaseExpression | None:
    parts = function.params
    every = (*parts.posonly_params, *parts.params, *parts.kwonly_params)
    own = next((one.annotation for one in every if one.name.value == parameter), None)
    if own is not None:
        return own.annotation
    return next((one for one in returned if get_name(one) in _ARRAYS), None)


def _unquote(node: cst.BaseExpression) -> tuple[str, cst.BaseExpression | None]:
    """Returns the quotation mark of a type that is written as a text, and the type; an empty one for any other type, and
    None for a text that is no expression.
    """
    if not isinstance(node, cst.SimpleString):
        return "", None if isinstance(node, cst.ConcatenatedString | cst.FormattedString) else node
    inner = node.raw_value
    if node.prefix or "\\" in inner or "\n" in inner or len(node.quote) > 1:
        return "", None
    try:
        return node.quote, cst.parse_expression(inner)
    except cst.ParserSyntaxError:
        return "", None


def _render_type(node: cst.BaseExpression) -> str:
    return cst.Module(body=()).code_for_node(node)


def _change_caller(
    project: Project, caller: Caller, handed: Handed, returned: Returned, depth: int
) -> list[NewContents]:
    """Makes a caller use what a function returns in addition. Returns where the new contents go."""
    file, call = caller.file, caller.call
    assert call is not None
    name = name_function(handed.file, handed.function)
    plans: list[NewContents] = []
    for parameter in handed.parameters:
        value = find_argument(caller, handed.function, parameter)
        plans.append(NewContents() if value is None else plan(project, file, call, value, writer=name, depth=depth))
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
    """Returns the variables that get the new contents of an argument. The function of the call also returns the new contents
    if at least one of its callers may be changed and may read them. writer: as in `plan_new_contents`. depth: as in
    `hand_up`.
    """
    found = plan_new_contents(file, call, value, writer=writer, hands_up=False)
    outer = file.find_function(call)
    if outer is None or depth <= 0 or not any(_is_wanted(project, file, outer, one) for one in found.parameters):
        return found
    return plan_new_contents(file, call, value, writer=writer, hands_up=True)


def _returns_tuple(handed: Handed) -> bool:
    file, function = handed.file, handed.function
    statements = [one for one in file.find(cst.Return, function) if file.find_function(one) is function]
    return any(isinstance(one.value, cst.Tuple) for one in statements)


def _require_no_earlier_read(file: SourceFile, call: cst.Call, names: Sequence[str]) -> None:
    """Raises CannotFixError if the statement of a call reads a variable left of the call: such a read would come after the
    call once that has a statement of its own.
    """
    inside = set(file.find(cst.Name, call))
    for one in file.find(cst.Name, file.find_statement(call)):
        if one in inside:
            return
        if one.value in names:
            raise CannotFixError(
                f"`{one.value}` is read before the call, in the same statement{file.render_place(call)}"
            )


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
        inner = _as_call(node)
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
