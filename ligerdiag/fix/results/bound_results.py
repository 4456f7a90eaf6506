"""Gives variable names to the additional results of a changed call, in the statement of the call."""

from collections.abc import Callable, Sequence
from enum import Enum, auto

import libcst as cst

from ligerdiag.fix.call_arguments import append_element, shift, wrap
from ligerdiag.fix.call_site import OUTPUT_KEYWORDS
from ligerdiag.fix.readers.array_names import NOWHERE
from ligerdiag.fix.source_file import CannotFixError, SourceFile

type MakeCall = Callable[[cst.Call], cst.BaseExpression]


class Returned(Enum):
    """The form of the results of a call before the change, such as one value or a tuple."""

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
    """Changes the statement of a call so that the additional results of the call get variable names.

    They come after the present results. Returns the source texts of all names that get a result.

    make: function that returns the changed call. names: for each additional result, the name of the variable that gets
    the result. before: source lines to put before the statement. after: function that gets the source texts of all names
    and returns source lines to put after the call. is_tuple: whether the call returns several results as a tuple; false
    if it returns a list.
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
                f"the statement of the call uses a result, but the call returns nothing{file.render_place(call)}"
            )
        case _:
            return _take_out(file, call, make, returned, names, after=after, before=before, is_tuple=is_tuple)
    names = [NOWHERE if one in old else one for one in names]
    results = [*old, *names]
    file.change(call, lambda node: make(as_call(node)))

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


def as_call(node: cst.CSTNode) -> cst.Call:
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
        new = make(as_call(node)).with_changes(lpar=(), rpar=())
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
