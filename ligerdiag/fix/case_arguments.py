"""Cures that change the arguments of a `Case` or of the `jax.jit` around its function: donations, unused arguments, flags of
XLA.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import libcst as cst

from ligerdiag.fix.call_arguments import add_keyword, find_keyword_place
from ligerdiag.fix.call_site import Project
from ligerdiag.fix.definitions import find_definition, find_target, list_parameters_of
from ligerdiag.fix.records import Texts
from ligerdiag.fix.source_file import CannotFixError, Change, SourceFile, UnrelatedCureError, get_name
from ligerdiag.model.findings import Finding
from ligerdiag.model.jobs import CaseSpec

_DONATIONS = ("donate_argnums", "donate_argnames")
_NAME = re.compile(r"`([A-Za-z_]\w*)[^`]*` (?:\([^)]*\) )?(?:is|are|,|and)")
_FLAG = re.compile(r"XLA_FLAGS=--(xla_\w+)=([\w,-]+)")


def list_flags(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns the changed text of the case's file, in which the case gets XLA flags.

    The flags are those that the help of the findings names. Raises UnrelatedCureError if it names none.
    """
    flags = read_flags(findings)
    if not flags:
        raise UnrelatedCureError("no finding names a flag of XLA")
    file, call = find_case_call(project, case)
    place = find_keyword_place(call.args, ("xla_flags",))
    if place is not None:
        raise CannotFixError(f"the case has `xla_flags` already{file.render_place(call)}")
    entries = ", ".join(f'"{name}": {_spell(value)}' for name, value in flags.items())

    def add(node: cst.CSTNode) -> cst.Call:
        assert isinstance(node, cst.Call)
        return add_keyword(node, f"xla_flags={{{entries}}}", after=("args", "mesh"))

    return [[file.render_with([(call, add)])]]


def read_flags(findings: Iterable[Finding]) -> dict[str, str]:
    """Returns the XLA flags that the help of the findings names, as a dict from flag to value, as in XLA_FLAGS."""
    return {name: value for one in findings for name, value in _FLAG.findall(one.help)}


def advise_flags(findings: Iterable[Finding]) -> str:
    """Returns the shell command that runs the program with the XLA flags that the findings name."""
    flags = " ".join(f"--{name}={value}" for name, value in read_flags(findings).items())
    return f'where the program runs, `export XLA_FLAGS="$XLA_FLAGS {flags}"`: `ligerdiag` alone reads the flags of the case'


def _spell(value: str) -> str:
    return {"true": "True", "false": "False"}.get(value) or (value if value.isdecimal() else f'"{value}"')


def list_fewer_donations(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns the text of the case's file, changed so that the case no longer donates the arguments in the findings.

    Raises UnrelatedCureError if no finding is about a donated argument.
    """
    about = [one for one in findings if "do not donate" in one.help]
    if not about:
        raise UnrelatedCureError("no finding is about a donated argument")
    file, call = find_case_call(project, case)
    names = {name for one in about for name in _NAME.findall(one.message)}
    home, function = _find_function(project, file, call)
    order = [] if function is None else [one.name.value for one in list_parameters_of(function)]
    numbers = {order.index(one) for one in names if one in order}
    changes: dict[SourceFile, list[tuple[cst.CSTNode, Change]]] = {}
    for one in _list_donating_args(file, call, numbers):
        changes.setdefault(file, []).append((one, lambda node: _drop_keywords(node, ("donate",))))
    if function is not None and home is not None:
        for where, jit in _list_jits(home, file, function):
            kept = _make_kept(numbers, names)
            changes.setdefault(where, []).append((jit, kept))
    if not changes:
        raise CannotFixError(f"the donation is not written in the case's file{file.render_place(call)}")
    texts: dict[Path, bytes] = {}
    for where, listed in changes.items():
        texts |= where.render_with(listed)
    return [[texts]]


def list_kept_arguments(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns the changed text of a file, with `keep_unused=True` added to the case or to the `jax.jit` of its function.

    With this argument JAX keeps a donated argument that the function never reads, so that an output may take its bytes.
    Raises UnrelatedCureError if JAX drops no donated argument.
    """
    if not any("keep_unused=True" in one.help for one in findings):
        raise UnrelatedCureError("JAX drops no donated argument")
    file, call = find_case_call(project, case)
    home, function = _find_function(project, file, call)
    jits = [] if function is None or home is None else list(_list_jits(home, file, function, every=True))

    def keep(node: cst.CSTNode) -> cst.Call:
        if isinstance(node, cst.Call):
            return add_keyword(node, "keep_unused=True", after=_DONATIONS)
        assert isinstance(node, cst.BaseExpression)  # a decorator without arguments: `@jax.jit`
        made = cst.Call(func=cst.parse_expression("jax.jit"), args=[])
        return add_keyword(made.with_changes(func=node), "keep_unused=True", after=())

    if jits:
        where = jits[0][0]
        return [[where.render_with([(jit, keep) for one, jit in jits if one is where])]]
    return [[file.render_with([(call, keep)])]]


def list_donations(project: Project, findings: Sequence[Finding], case: CaseSpec) -> list[list[Texts]]:
    """Returns the text of the case's file, changed so that the case donates more arguments.

    They are those that the kernel overwrites or that XLA copies. Raises UnrelatedCureError if no finding asks for a
    donation.
    """
    about = [one for one in findings if "donate it" in one.help or "donate the argument" in one.help]
    about = [one for one in about if "do not donate" not in one.help]
    if not about:
        raise UnrelatedCureError("no finding asks for a donation")
    file, call = find_case_call(project, case)
    _, function = _find_function(project, file, call)
    order = [] if function is None else [one.name.value for one in list_parameters_of(function)]
    texts = [one.message for one in about] + [text for one in about for _, text in one.evidence]
    named = {name for text in texts for name in re.findall(r"argument `([A-Za-z_]\w*)", text)}
    numbers = sorted(order.index(one) for one in named if one in order)
    given = _list_given(file, call)
    if not numbers or any(number >= len(given) or not _is_arg(given[number]) for number in numbers):
        raise CannotFixError(f"the argument to donate is not written as an `Arg`{file.render_place(call)}")

    def donate(node: cst.CSTNode) -> cst.Call:
        assert isinstance(node, cst.Call)
        cleared = _drop_keywords(node, ("donate",))
        return add_keyword(cleared, "donate=True", after=())

    return [[file.render_with([(given[number], donate) for number in numbers])]]


def find_case_call(project: Project, case: CaseSpec) -> tuple[SourceFile, cst.Call]:
    """Returns the call of `Case` that makes the case, and the file with this call.

    It is the call whose literal name and params fit best. Raises CannotFixError if no call fits, or if several fit
    equally well.
    """
    if not case.source.file:
        raise CannotFixError("the case is not defined in a file: make the change where the program calls `jax.jit`")
    file = project.load(case.source.file)
    found: list[tuple[int, cst.Call]] = []
    for call in file.find(cst.Call):
        if get_name(call.func) == "Case":
            fit = _compute_fit(file, call, case)
            if fit is not None:
                found.append((fit, call))
    best = [call for fit, call in found if fit == max(one for one, _ in found)]
    if len(best) != 1:
        count = "no call" if not best else "more than one call"
        raise CannotFixError(f"{count} of `Case` in `{file.path.name}` fits the name and params of `{case.id}`")
    return file, best[0]


def _compute_fit(file: SourceFile, call: cst.Call, case: CaseSpec) -> int | None:
    """Returns the number of literals that a case's name and params share with the call; None if one differs."""
    fit = 0
    for argument in call.args:
        keyword = "" if argument.keyword is None else argument.keyword.value
        pairs: list[tuple[cst.BaseExpression, str | None]] = []
        if keyword == "name":
            pairs = [(argument.value, case.name)]
        elif keyword == "params" and isinstance(argument.value, cst.Tuple | cst.List):
            values = [one.value for one in argument.value.elements]
            pairs = [(one, case.params[n] if n < len(case.params) else None) for n, one in enumerate(values)]
        for value, wanted in pairs:
            if isinstance(value, cst.SimpleString):
                if value.evaluated_value != wanted:
                    return None
                fit += 1
            elif isinstance(value, cst.Integer):
                if value.value != wanted:
                    return None
                fit += 1
    return fit


def _find_function(
    project: Project, file: SourceFile, call: cst.Call
) -> tuple[SourceFile | None, cst.FunctionDef | None]:
    place = find_keyword_place(call.args, ("function",))
    if place is None:
        return None, None
    value = call.args[place].value
    name = find_target(value)[0] if isinstance(value, cst.Call) else get_name(value)
    if isinstance(value, cst.Call) and get_name(value.func) == "jit" and value.args:
        name = get_name(value.args[0].value)
    found = find_definition(project, file, name, cst.FunctionDef)
    if found is None and name:
        for one in file.find(cst.Assign):  # `step_jit = jax.jit(step, ...)`
            if get_name(one.targets[0].target) == name and isinstance(one.value, cst.Call) and one.value.args:
                found = find_definition(project, file, get_name(one.value.args[0].value), cst.FunctionDef)
    return (None, None) if found is None else found


def _list_given(file: SourceFile, call: cst.Call) -> list[cst.BaseExpression]:
    """Returns the arguments of a case if they are written out; [] if they are not."""
    place = find_keyword_place(call.args, ("args",))
    value = None if place is None else call.args[place].value
    if isinstance(value, cst.Name):
        assigned = [one for one in file.find(cst.Assign) if get_name(one.targets[0].target) == value.value]
        value = assigned[0].value if len(assigned) == 1 else None
    return [one.value for one in value.elements] if isinstance(value, cst.Tuple | cst.List) else []


def _is_arg(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and get_name(value.func) == "Arg"


def _list_donating_args(file: SourceFile, call: cst.Call, numbers: set[int]) -> Iterator[cst.Call]:
    """Yields the calls of `Arg` that donate: of the case's arguments those at these positions, or all of them. Arguments
    that are not written out come from a function of the file, or from anywhere in it if it has one case alone.
    """
    given = _list_given(file, call)
    within: list[cst.CSTNode] = [given[one] for one in sorted(numbers) if one < len(given)] or [*given]
    if not given:
        place = find_keyword_place(call.args, ("args",))
        value = None if place is None else call.args[place].value
        maker = get_name(value.func) if isinstance(value, cst.Call) else ""
        cases = [one for one in file.find(cst.Call) if get_name(one.func) == "Case"]
        within = [one for one in file.find(cst.FunctionDef) if one.name.value == maker]
        within = within or ([file.module] if len(cases) == 1 else [])
    for node in within:
        for one in file.find(cst.Call, node):
            if get_name(one.func) == "Arg" and find_keyword_place(one.args, ("donate",)) is not None:
                yield one


def _list_jits(
    home: SourceFile, file: SourceFile, function: cst.FunctionDef, *, every: bool = False
) -> Iterator[tuple[SourceFile, cst.CSTNode]]:
    """Yields each `jax.jit` of a function, as a call or a decorator. every: also those that donate nothing."""
    for decorator in function.decorators:
        value = decorator.decorator
        call = value if isinstance(value, cst.Call) else None
        inner = value if call is None else call.func
        if call is not None and get_name(call.func) == "partial" and call.args:
            inner = call.args[0].value
        donates = call is not None and find_keyword_place(call.args, _DONATIONS) is not None
        if get_name(inner) == "jit" and (every or donates):
            yield home, value
    for where in dict.fromkeys((home, file)):
        for call in where.find(cst.Call):
            is_jit = get_name(call.func) == "jit" and call.args and get_name(call.args[0].value) == function.name.value
            if is_jit and (every or find_keyword_place(call.args, _DONATIONS) is not None):
                yield where, call


def _make_kept(numbers: set[int], names: set[str]) -> Change:
    """Returns a change of a `jax.jit` that donates all it did, except these arguments; all of them if none is named."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)
        args: list[cst.Arg] = []
        for one in node.args:
            keyword = "" if one.keyword is None else one.keyword.value
            if keyword not in _DONATIONS:
                args.append(one)
                continue
            gone = {str(number) for number in numbers} if keyword == "donate_argnums" else names
            elements = one.value.elements if isinstance(one.value, cst.Tuple | cst.List) else ()
            kept = [element for element in elements if _read_literal(element.value) not in gone] if names else []
            if kept and isinstance(one.value, cst.Tuple | cst.List):
                last = cst.Comma() if len(kept) == 1 else cst.MaybeSentinel.DEFAULT
                kept[-1] = kept[-1].with_changes(comma=last)
                args.append(one.with_changes(value=one.value.with_changes(elements=kept)))
        if get_name(node.func) == "partial" and len(args) == 1:
            return args[0].value
        return _close(node, args)

    return change


def _read_literal(value: cst.BaseExpression) -> str:
    if isinstance(value, cst.SimpleString):
        return str(value.evaluated_value)
    return value.value if isinstance(value, cst.Integer) else ""


def _drop_keywords(node: cst.CSTNode, names: Sequence[str]) -> cst.Call:
    assert isinstance(node, cst.Call)
    return _close(node, [one for one in node.args if one.keyword is None or one.keyword.value not in names])


def _close(call: cst.Call, args: list[cst.Arg]) -> cst.Call:
    """Returns the call with fewer arguments, the last of which ends as the last one did."""
    if args and len(args) < len(call.args):
        args[-1] = args[-1].with_changes(
            comma=call.args[-1].comma, whitespace_after_arg=call.args[-1].whitespace_after_arg
        )
    return call.with_changes(args=args)
