"""Cures that change expressions other than the call: zeros that JAX moves out of a loop, missing zeros, and several aliases
of one buffer.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import libcst as cst

from ligerdiag.fix.call_arguments import find_keyword_place, replace_keyword, wrap
from ligerdiag.fix.call_site import ALIASES, Project
from ligerdiag.fix.definitions import find_function_at, list_parameters_of
from ligerdiag.fix.other_cures import find_lax
from ligerdiag.fix.records import Texts
from ligerdiag.fix.source_file import CannotFixError, Change, SourceFile, UnrelatedCureError, get_name
from ligerdiag.model.findings import Finding, SourceLine
from ligerdiag.model.jobs import CaseSpec

_CONSTANTS = ("zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "empty")
_MOST_VALUES = 4


def list_traced_zeros(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns changed programs in which JAX does not move a constant out of a loop.

    The function in question fills a Ref with the constant. In each changed program, the constant goes through an
    optimization barrier together with one argument of the function. JAX then computes it in every iteration, with the
    same result.
    Raises UnrelatedCureError if no finding is about a Ref that JAX moved.
    """
    del case
    lines = [one.source for one in findings if "jax.new_ref(0 * x)" in one.help and one.source is not None]
    if not lines:
        raise UnrelatedCureError("no finding is about a Ref that JAX moves")
    batches: list[list[Texts]] = []
    for line in lines:
        batches += [[one] for one in _list_barriers(project, line)]
    if not batches:
        raise CannotFixError("no `jax.new_ref` of a constant is found in the function that reads the Ref")
    return batches[:_MOST_VALUES]


def _list_barriers(project: Project, line: SourceLine) -> Iterator[Texts]:
    scope = find_function_at(project, line)
    if scope is None:
        return
    file, function = scope
    constants = [
        one
        for ref in file.find(cst.Call, function)
        if get_name(ref.func) == "new_ref" and ref.args
        for one in file.find(cst.Call, ref.args[0])
        if get_name(one.func) in _CONSTANTS
    ]
    for name in _list_values(file, function) if constants else ():

        def tie(node: cst.CSTNode, name: str = name) -> cst.CSTNode:
            assert isinstance(node, cst.Call)
            tied = cst.Tuple(elements=[cst.Element(node), cst.Element(cst.Name(name))])
            barrier = cst.Call(
                func=cst.parse_expression(f"{find_lax(file)}.optimization_barrier"), args=[cst.Arg(tied)]
            )
            first = cst.SubscriptElement(cst.Index(cst.Integer("0")))
            return cst.Subscript(value=barrier, slice=[first])

        yield file.render_with([(one, tie) for one in constants])


def _list_values(file: SourceFile, function: cst.FunctionDef) -> list[str]:
    """Returns the parameters of a function, those first that it passes on as operands of a call of a call, as
    `pallas_call(...)(x)` does, or by position.
    """
    passed = [
        one.value.value
        for call in file.find(cst.Call, function)
        if get_name(call.func) not in _CONSTANTS
        for one in call.args
        if one.keyword is None and isinstance(one.value, cst.Name)
    ]
    names = [one.name.value for one in list_parameters_of(function)]
    return sorted(names, key=lambda name: -passed.count(name))


def list_filled(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns the changed text of a program that reads unwritten memory. The memory is filled with zeros.

    Raises UnrelatedCureError if no finding is about such memory.
    """
    del case
    about = [one for one in findings if "fill the array or the Ref with zeros" in one.help and one.source is not None]
    if not about:
        raise UnrelatedCureError("no finding is about memory that nothing has written")
    changes: dict[SourceFile, list[tuple[cst.CSTNode, Change]]] = {}
    for line in [line for one in about for line in (one.source, *(() if one.call is None else one.call.callers))]:
        scope = None if line is None else find_function_at(project, line)
        if scope is None:
            continue
        file, function = scope
        for call in file.find(cst.Call, function):
            known = [node for node, _ in changes.get(file, ())]
            if get_name(call.func) in ("empty", "empty_like", "empty_ref") and call not in known:
                changes.setdefault(file, []).append((call, _make_filled(file.find_module_name)))
    if not changes:
        raise CannotFixError("the memory is not allocated in the function that calls the kernel")
    texts: dict[Path, bytes] = {}
    for file, listed in changes.items():
        texts |= file.render_with(listed)
    return [[texts]]


def _make_filled(find_module_name: Callable[[str], str]) -> Change:
    def fill(node: cst.CSTNode) -> cst.Call:
        assert isinstance(node, cst.Call)
        numpy, name = find_module_name("jax.numpy"), get_name(node.func)
        if name != "empty_ref":
            return node.with_changes(func=cst.parse_expression(f"{numpy}.{name.replace('empty', 'zeros')}"))
        given = node.args[0].value
        is_written = isinstance(given, cst.Call) and get_name(given.func) == "ShapeDtypeStruct"
        inner = given.args if is_written and isinstance(given, cst.Call) else [node.args[0]]
        function = cst.parse_expression(f"{numpy}.{'zeros' if is_written else 'zeros_like'}")
        zeros = cst.Call(func=function, args=inner)
        return node.with_changes(
            func=cst.parse_expression(f"{find_module_name('jax')}.new_ref"),
            args=[node.args[0].with_changes(value=zeros), *node.args[1:]],
        )

    return fill


def list_fewer_aliases(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns the text of a changed program in which a call no longer declares two aliases of one buffer, but one.

    Raises UnrelatedCureError if no finding is about two such aliases.
    """
    del case
    about = [
        one
        for one in findings
        if "another alias names the same buffer" in one.message and one.source is not None and one.operand is not None
    ]
    if not about:
        raise UnrelatedCureError("no finding is about two aliases of one buffer")
    for one in about:
        scope = None if one.source is None else find_function_at(project, one.source)
        if scope is None:
            continue
        file, function = scope
        calls = file.find(cst.Call, function)
        declared = [one for one in calls if find_keyword_place(one.args, (ALIASES,)) is not None]
        if len(declared) == 1:
            operand, column = one.operand, file.get_column(declared[0])

            def drop(
                node: cst.CSTNode, file: SourceFile = file, operand: int | None = operand, column: int = column
            ) -> cst.Call:
                assert isinstance(node, cst.Call)
                changed = replace_keyword(
                    node, (ALIASES,), lambda arg: arg.with_changes(value=_drop_alias(file, arg.value, operand))
                )
                return wrap(changed, column, file)

            return [[file.render_with([(declared[0], drop)])]]
    raise CannotFixError(f"`{ALIASES}` does not occur in the function that calls the kernel")


def _drop_alias(file: SourceFile, value: cst.BaseExpression, operand: int | None) -> cst.BaseExpression:
    """Returns the source of a mapping from operand to output without this operand."""
    if isinstance(value, cst.Dict):
        kept = [
            one
            for one in value.elements
            if not (isinstance(one, cst.DictElement) and file.module.code_for_node(one.key) == str(operand))
        ]
        if len(kept) < len(value.elements):
            if kept:
                kept[-1] = kept[-1].with_changes(comma=value.elements[-1].comma)
            return value.with_changes(elements=kept)
    code = re.sub(r"\s+", " ", file.module.code_for_node(value))
    text = f"{{number: output for number, output in {code}.items() if number != {operand}}}"
    return cst.parse_expression(text)
