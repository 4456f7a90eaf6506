"""Gives names to what a changed call returns in addition, in the function of the call and in its callers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import libcst as cst

from ligerdiag.fix.call_arguments import append_element, make_tuple, wrap
from ligerdiag.fix.call_site import Project
from ligerdiag.fix.source_file import CannotFixError, SourceFile, get_name

NOWHERE = "_"
"""The name of a value that nobody reads."""

type MakeCall = Callable[[cst.Call], cst.BaseExpression]


class Returned(Enum):
    """The form of the results of a call before it is changed."""

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
) -> list[str]:
    """Makes a statement keep the additional results of a call, which come after those that it returns now. Returns the
    source texts of the names that get the results of the call, the additional ones included.

    make: returns the changed call. names: for each additional result the variable that gets it. before, after: source
    lines to put in front of the statement and after the call; `after` gets the source text of all names.
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
            raise CannotFixError(f"the call returns nothing, and its statement uses that{file.render_place(call)}")
        case _:
            return _take_out(file, call, make, returned, names, after=after, before=before)
    names = [NOWHERE if one in old else one for one in names]
    results = [*old, *names]
    file.change(call, lambda node: make(_as_call(node)))

    def rewrite(node: cst.CSTNode) -> cst.FlattenSentinel[cst.BaseStatement]:
        assert isinstance(node, cst.SimpleStatementLine)
        assign = node.body[0]
        assert isinstance(assign, cst.Assign | cst.Expr)
        if not results or (isinstance(assign, cst.Assign) and not names):
            changed = assign
        elif isinstance(assign, cst.Assign) and isinstance(target := assign.targets[0].target, cst.Tuple | cst.List):
            target = append_element(target, *names)
            changed = assign.with_changes(targets=[assign.targets[0].with_changes(target=target)])
        else:
            changed = _assign(results, assign.value, assign)
        changed = _wrap(file, statement, changed)
        return _surround(node.with_changes(body=[changed]), before, after(", ".join(results)) if after else ())

    file.change(statement, rewrite)
    return results


def _list_targets(file: SourceFile, target: cst.BaseExpression, returned: Returned) -> list[str]:
    if isinstance(target, cst.Tuple | cst.List):
        return [file.module.code_for_node(one.value) for one in target.elements]
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
    return assign.with_changes(value=wrap(assign.value, file.get_column(statement) + before, file.width))


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
) -> list[str]:
    """Puts the call into a statement of its own in front of the one that contains it."""
    statement = file.find_statement(call)
    result = file.find_unused_name("result" if returned is Returned.ONE else "results", file.find_function(call))
    results = [result if returned is Returned.ONE else f"*{result}", *names]
    made: list[cst.BaseExpression] = []

    def replace_call(node: cst.CSTNode) -> cst.Name:
        made.append(make(_as_call(node)).with_changes(lpar=(), rpar=()))
        return cst.Name(result)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A function that has to return the new contents of some of its arguments."""

    file: SourceFile
    function: cst.FunctionDef
    parameters: tuple[str, ...]


def find_handed(file: SourceFile, node: cst.CSTNode, names: Sequence[str]) -> Handed | None:
    """Returns the function around a call whose callers may read the variables `names` after the call, because they are
    its parameters; None if no caller can.
    """
    function = file.find_function(node)
    if function is None:
        return None
    own = _list_parameters(function)
    handed = tuple(name for name in names if name in own)
    return Handed(file=file, function=function, parameters=handed) if handed else None


def _list_parameters(function: cst.FunctionDef) -> list[str]:
    parts = function.params
    return [one.name.value for one in (*parts.posonly_params, *parts.params, *parts.kwonly_params)]


def hand_up(project: Project, handed: Handed) -> list[Handed]:
    """Makes a function return the new contents of its parameters, and its callers use them. Returns the callers whose
    own callers may read them. Raises CannotFixError if the function is used in another way than by calls.
    """
    file, function = handed.file, handed.function
    name = function.name.value
    returned = _change_returns(file, function, handed.parameters)
    users = project.find_users(name, file)
    further: list[Handed] = []
    for user in users:
        for call in list_calls(user, name, function if user is file else None):
            further += _change_caller(user, call, handed, returned)
    return further


def _change_returns(file: SourceFile, function: cst.FunctionDef, parameters: Sequence[str]) -> Returned:
    if function.decorators and any(_changes_results(one) for one in function.decorators):
        raise CannotFixError(
            f"`{function.name.value}` would have to return more, and a decorator gives its results a meaning"
            f"{file.render_place(function)}"
        )
    statements = [one for one in file.find(cst.Return, function) if file.find_function(one) is function]
    if not statements:
        raise CannotFixError(f"`{function.name.value}` returns nothing{file.render_place(function)}")
    kinds: set[Returned] = set()
    for statement in statements:
        if statement.value is None:
            raise CannotFixError(f"`{function.name.value}` returns nothing{file.render_place(statement)}")
        is_sequence = isinstance(statement.value, cst.Tuple | cst.List)
        kinds.add(Returned.SEQUENCE if is_sequence else Returned.ONE)
    if len(kinds) > 1:
        raise CannotFixError(
            f"`{function.name.value}` returns one value here and several there{file.render_place(function)}"
        )

    def add(node: cst.CSTNode) -> cst.Return:
        assert isinstance(node, cst.Return)
        assert node.value is not None
        if isinstance(node.value, cst.Tuple | cst.List):
            return node.with_changes(value=append_element(node.value, *parameters))
        return node.with_changes(value=make_tuple(node.value, *parameters, parentheses=False))

    for statement in statements:
        file.change(statement, add)
    if function.returns is not None:
        file.change(function, lambda node: node.with_changes(returns=None))  # the new type needs imports
    return kinds.pop()


def _changes_results(decorator: cst.Decorator) -> bool:
    call = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
    return get_name(call) not in ("jit", "named_call", "named_scope", "checkpoint", "remat", "staticmethod", "inline")


def list_calls(file: SourceFile, name: str, function: cst.FunctionDef | None) -> list[cst.Call]:
    """Returns the calls of a function in a file. function: its `def` if the file has it. Raises CannotFixError for any
    other use of the function, which would get a result of another form.
    """
    calls: list[cst.Call] = []
    called: set[cst.CSTNode] = set()
    for call in file.find(cst.Call):
        if get_name(call.func) == name:
            calls.append(call)
            called.add(call.func)
    for reference in file.find(cst.Name):
        if reference.value != name:
            continue
        parents = list(file.list_parents(reference))
        if parents[0] is function or any(isinstance(one, cst.ImportFrom | cst.ImportAlias) for one in parents):
            continue
        own = reference if reference in called else parents[0]
        if own in called:
            continue
        if isinstance(parents[0], cst.Attribute) and parents[0].attr is not reference:
            continue
        if isinstance(parents[0], cst.Arg) and parents[0].keyword is reference:
            continue
        raise CannotFixError(f"`{name}` would have to return more, but it is passed on{file.render_place(reference)}")
    return calls


def _change_caller(file: SourceFile, call: cst.Call, handed: Handed, returned: Returned) -> list[Handed]:
    names: list[str] = []
    order = _list_parameters(handed.function)
    is_method = order[:1] == ["self"]
    if any(one.star for one in call.args):
        raise CannotFixError(f"the arguments of the call are unpacked with `*`{file.render_place(call)}")
    given = [one for one in call.args if one.keyword is None]
    for parameter in handed.parameters:
        place = order.index(parameter) - (1 if is_method else 0)
        named = next((a for a in call.args if a.keyword is not None and a.keyword.value == parameter), None)
        argument = named or (given[place] if place < len(given) else None)
        value = None if argument is None else argument.value
        if isinstance(value, cst.Subscript | cst.Attribute):
            raise CannotFixError(
                f"`{handed.function.name.value}` would return new contents, and a caller passes it no variable"
                f" that could take them{file.render_place(call)}"
            )
        names.append(value.value if isinstance(value, cst.Name) else NOWHERE)
    bind_results(file, call, lambda node: node, returned, names)
    found = find_handed(file, call, [one for one in names if one != NOWHERE])
    return [] if found is None else [found]
