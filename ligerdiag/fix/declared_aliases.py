"""Cures that give the kernel call an additional output: the new contents of the operand that it overwrites.

| cure | the call | the kernel before jax-triton 0.4 |
|---|---|---|
| declare | an output that aliases the operand, `input_output_aliases={0: 1}` | a spare pointer, with Pallas always |
| call-in-place | the same by `ligerdiag.in_place.call_in_place` | a spare pointer for each |
| out-of-place | an output with bytes of its own | a pointer for each, through which it stores |
| shard-map | as `declare`, in a `jax.shard_map` around the function that calls the kernel | as `declare` |
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import libcst as cst

from ligerdiag.fix.call_arguments import (
    add_keyword,
    append_element,
    find_keyword_place,
    insert,
    make_tuple,
    parse_argument,
    replace_argument,
    replace_keyword,
)
from ligerdiag.fix.call_site import ALIASES, CURED_CALL, OUTPUT_KEYWORDS, TRITON_CALL, CallSite, Project, Written
from ligerdiag.fix.kernel_parameters import (
    add_pointers,
    add_spares,
    list_kernel_names,
    list_other_calls,
    redirect_stores,
    require_kernel,
)
from ligerdiag.fix.readers.array_names import NewContents
from ligerdiag.fix.readers.callers import list_callers
from ligerdiag.fix.readers.calls_beside import list_calls_beside
from ligerdiag.fix.results.bound_results import MakeCall, Returned, bind_results
from ligerdiag.fix.results.caller_remarks import warn_of_tracer
from ligerdiag.fix.results.handed_results import hand_up, plan
from ligerdiag.fix.source_file import CannotFixError, SourceFile, UnrelatedCureError, get_name

IMPORT = "from ligerdiag.in_place import call_in_place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The properties of the run that decide which form a cure takes."""

    is_old: bool
    """Whether jax-triton is older than 0.4: it passes the kernel a pointer for each output that aliases an operand."""
    depth: int = 0
    """Number of callers, counted from the innermost one, that the cure changes so that they also get the new contents."""
    axes: tuple[str, ...] = ()
    """Names of the mesh's axes with several devices."""


def declare(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Declares each hidden write: the call gets an output that aliases the operand."""
    for group in _group_by_kernel(project, sites, changes_kernel=given.is_old):
        first = group[0]
        if first.is_pallas:
            if len(group) > 1 or first.find_keyword("out_specs", "grid_spec") is not None:
                raise CannotFixError(
                    "no output can be added: the call has `out_specs`, or other calls use its kernel"
                    f"{first.file.render_place(first.call)}"
                )
            add_spares(project, group, sites, "spare_ref")
        elif given.is_old:
            add_spares(project, group, sites)
        _hand_up_all(project, group, given, [_declare_call(project, site, given) for site in group])


def call_in_place(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Declares each hidden write by calling the kernel through `call_in_place`."""
    for group in _group_by_kernel(project, sites, changes_kernel=given.is_old):
        if group[0].is_pallas:
            raise CannotFixError("`call_in_place` calls kernels of jax-triton only")
        if given.is_old:
            add_spares(project, group, sites)
        _hand_up_all(project, group, given, [_call_in_place(project, site, given) for site in group])


def store_out_of_place(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Makes each kernel store the new contents into an output with bytes of its own."""
    for group in _group_by_kernel(project, sites, changes_kernel=True):
        first = group[0]
        if first.is_pallas:
            raise CannotFixError("this cure can change only kernels in Triton")
        parameters = [one.parameter for one in first.written]
        if not all(one in list_kernel_names(first) for one in parameters):
            raise CannotFixError(f"the parameters of `{first.kernel}` that it overwrites are unknown")
        used = first.kernel_file.list_names(require_kernel(first))
        names = [f"new_{one}" if f"new_{one}" not in used else f"new_{one}_" for one in parameters]
        add_pointers(project, group, sites, names)
        redirect_stores(first, dict(zip(parameters, names, strict=True)))
        plans: list[list[NewContents]] = []
        for site in group:
            outputs = _find_outputs(site)
            values = [_name_operand(site, one) for one in site.written]
            plans.append(_add_outputs(project, site, given, outputs, values=values))
        _hand_up_all(project, group, given, plans)


def _group_by_kernel(project: Project, sites: Sequence[CallSite], *, changes_kernel: bool) -> list[list[CallSite]]:
    groups: dict[str, list[CallSite]] = {}
    for site in sites:
        site.require_arguments()
        groups.setdefault(f"{site.kernel_file.path}:{site.kernel}", []).append(site)
    for group in groups.values():
        first = group[0]
        if any([one.parameter for one in site.written] != [one.parameter for one in first.written] for site in group):
            raise CannotFixError(f"the calls of `{first.kernel}` overwrite different operands")
        known = {site.call for site in group}
        if changes_kernel and not first.is_pallas:
            others = list_other_calls(project, first)
            _add_siblings(project, group, [one for one in others if one[1] not in known])
        else:
            beside = {call: site.file for site in group for call in list_calls_beside(site)}
            _add_siblings(project, group, [(beside[call], call) for call in beside if call not in known])
        project.changed_calls |= {site.call for site in group}
    return list(groups.values())


def _add_siblings(project: Project, group: list[CallSite], others: Sequence[tuple[SourceFile, cst.Call]]) -> None:
    """Adds other calls of the kernel to the calls that the findings name."""
    first = group[0]
    for file, call in others:
        group.append(_make_sibling(first, file, call))
        project.also_changed[f"the call of `{first.kernel}`{file.render_place(call)}"] = None


def _make_sibling(site: CallSite, file: SourceFile, call: cst.Call) -> CallSite:
    """Returns another call of the kernel, which the case does not reach, with the same operands overwritten."""
    written: list[Written] = []
    given = site.list_operands(call)
    for one in site.written:
        place = site.compute_position(one)
        if place is None or place >= len(given) or any(argument.star for argument in given):
            raise CannotFixError(
                f"another call of `{site.kernel}` passes its operands in another form{file.render_place(call)}"
            )
        written.append(replace(one, argument=given[place]))
    if any(one.keyword is not None and one.keyword.value == ALIASES for one in call.args):
        raise CannotFixError(f"another call of `{site.kernel}` has `{ALIASES}` already{file.render_place(call)}")
    return replace(site, file=file, call=call, statement=file.find_statement(call), written=tuple(written))


def _is_plain(site: CallSite) -> bool:
    """Returns whether the call is one of `triton_call` itself, without keywords that a `partial` adds."""
    partials = [one for one in site.file.find(cst.Call) if get_name(one.func) == "partial"]
    return site.callee == TRITON_CALL or not any(
        get_name(argument.value) == TRITON_CALL for one in partials for argument in one.args
    )


def _find_outputs(site: CallSite) -> Returned:
    """Returns what the call returns: it depends on the form in which the outputs are declared."""
    place = site.find_outputs_argument()
    if place is None:
        raise CannotFixError(f"the call does not name its outputs by `out_shape`{site.file.render_place(site.call)}")
    value = site.options.args[place].value
    if isinstance(value, cst.Name):
        value = _find_assigned(site, value.value) or value
    if isinstance(value, cst.Tuple | cst.List):
        return Returned.SEQUENCE if value.elements else Returned.NOTHING
    if site.outputs == 0:
        return Returned.NOTHING
    if site.outputs > 1 or isinstance(value, cst.ListComp | cst.GeneratorExp):
        return Returned.SEQUENCE
    return Returned.ONE


def _find_assigned(site: CallSite, name: str) -> cst.BaseExpression | None:
    """Returns the expression that the function of the call assigns to a variable; None unless it is the only one."""
    found = [
        one.value
        for one in site.file.find(cst.Assign, site.file.find_function(site.call))
        if len(one.targets) == 1 and get_name(one.targets[0].target) == name
    ]
    return found[0] if len(found) == 1 else None


def _name_operand(site: CallSite, written: Written) -> str:
    """Returns the source of an array that has the shape and dtype of the operand."""
    return site.file.module.code_for_node(written.argument.value)


def _declare_call(project: Project, site: CallSite, given: Circumstances) -> list[NewContents]:
    outputs, values = _find_outputs(site), [_name_operand(site, one) for one in site.written]
    first = {Returned.NOTHING: 0, Returned.ONE: 1, Returned.SEQUENCE: max(site.outputs, 1)}[outputs]
    numbers: list[int] = []
    for one in site.written:
        number = one.number if given.is_old or site.is_pallas else site.compute_position(one)
        if number is None:
            raise CannotFixError(
                f"the operand has no position, because it is passed by keyword{site.file.render_place(site.call)}"
            )
        numbers.append(number)
    present = _read_aliases(site)
    if set(present) & set(numbers):
        raise CannotFixError(f"the call declares an alias of this operand already{site.file.render_place(site.call)}")
    every = {**present, **{number: first + place for place, number in enumerate(numbers)}}
    aliases = ", ".join(f"{operand}: {output}" for operand, output in every.items())
    return _add_outputs(project, site, given, outputs, values=values, keywords=[f"{ALIASES}={{{aliases}}}"])


def _read_aliases(site: CallSite) -> dict[int, int]:
    """Returns the output that the call aliases to each operand. Raises CannotFixError if they are not written out."""
    keyword = site.find_keyword(ALIASES)
    if keyword is None:
        return {}
    try:
        found: object = ast.literal_eval(site.file.module.code_for_node(keyword.value).strip())
    except (ValueError, SyntaxError):
        found = None
    pairs = cast("dict[object, object]", found) if isinstance(found, dict) else {None: None}
    if not all(type(one) is int and one >= 0 for pair in pairs.items() for one in pair):
        raise CannotFixError(f"`{ALIASES}` of the call is not a literal dict{site.file.render_place(site.call)}")
    return cast("dict[int, int]", pairs)


def _add_outputs(
    project: Project,
    site: CallSite,
    given: Circumstances,
    outputs: Returned,
    *,
    values: Sequence[str],
    keywords: Sequence[str] = (),
) -> list[NewContents]:
    """Adds outputs like the arrays `values` to the call, and keywords behind those of the outputs; the results replace
    the variables that were passed.
    """
    alone = outputs is Returned.NOTHING and len(values) == 1

    def extend(argument: cst.Arg) -> cst.Arg:
        value = argument.value
        if alone:
            return argument.with_changes(value=cst.parse_expression(values[0]))
        if isinstance(value, cst.Tuple | cst.List):
            return argument.with_changes(value=append_element(value, *values))
        if outputs is Returned.SEQUENCE:
            code = site.file.module.code_for_node(value)
            return argument.with_changes(value=cst.parse_expression(f"(*{code}, {', '.join(values)})"))
        return argument.with_changes(value=make_tuple(value, *values, parentheses=True))

    def change_options(options: cst.Call) -> cst.Call:
        options = replace_argument(options, site.find_outputs_argument(options), extend)
        for keyword in keywords:
            new = parse_argument(keyword)
            name = "" if new.keyword is None else new.keyword.value
            if find_keyword_place(options.args, (name,)) is not None:
                options = replace_keyword(options, (name,), lambda old, new=new: old.with_changes(value=new.value))
                continue
            options = add_keyword(options, keyword, after=OUTPUT_KEYWORDS)
        return options

    def make(call: cst.Call) -> cst.Call:
        if isinstance(call.func, cst.Call):
            return call.with_changes(func=change_options(call.func))
        return change_options(call)

    return _bind(project, site, given, outputs, make)


def _call_in_place(project: Project, site: CallSite, given: Circumstances) -> list[NewContents]:
    if site.find_keyword(ALIASES) is not None:
        raise CannotFixError(f"the call has `{ALIASES}` already{site.file.render_place(site.call)}")
    if site.forwarding is not None or not _is_plain(site):
        raise CannotFixError(f"the kernel is called through `{site.callee}`{site.file.render_place(site.call)}")
    outputs = _find_outputs(site)
    entries: list[str] = []
    for one in site.written:
        position = site.compute_position(one)
        entries.append(f'"{one.parameter}"' if position is None else str(position))
    written = entries[0] if len(entries) == 1 else f"({', '.join(entries)})"

    def make(call: cst.Call) -> cst.Call:
        place = find_keyword_place(call.args, OUTPUT_KEYWORDS)
        assert place is not None
        args = [*call.args]
        if outputs is Returned.NOTHING:
            del args[place]
        else:
            args[place] = args[place].with_changes(keyword=cst.Name("outputs"))
        args = insert(args, place, parse_argument(f"written={written}"))
        return call.with_changes(func=cst.Name(CURED_CALL), args=args)

    site.file.add_import(IMPORT)
    return _bind(project, site, given, outputs, make, is_tuple=True)


def _bind(
    project: Project,
    site: CallSite,
    given: Circumstances,
    outputs: Returned,
    make: MakeCall,
    *,
    is_tuple: bool = False,
) -> list[NewContents]:
    """Gives names to the new contents that the changed call returns, in its function. Returns them."""
    plans = [
        plan(project, site.file, site.call, one.argument.value, writer=site.kernel, depth=given.depth)
        for one in site.written
    ]
    names = [one.name for one in plans]
    if outputs is Returned.NOTHING and len(names) == 1 and is_tuple:
        names = [f"({names[0]},)"]
    after = [line for one in plans for line in one.after]
    bind_results(site.file, site.call, make, outputs, names, after=(lambda _: after) if after else None)
    warn_of_tracer(project, site.file, site.call, plans)
    return plans


def _hand_up_all(
    project: Project, sites: Sequence[CallSite], given: Circumstances, plans: Sequence[Sequence[NewContents]]
) -> None:
    """Makes the functions of the calls return the new contents, each of them once. plans: those of each call."""
    found: dict[cst.FunctionDef | cst.Call, tuple[CallSite, list[NewContents]]] = {}
    for site, own in zip(sites, plans, strict=True):
        function = site.file.find_function(site.call)
        found.setdefault(function or site.call, (site, []))[1].extend(own)
    for site, every in found.values():
        hand_up(project, site.file, site.call, every, given.depth)


def declare_in_shards(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Declares each write, and calls the function around the kernel's call in a `jax.shard_map` over the mesh's axis.

    Raises UnrelatedCureError unless the program runs on several devices. Raises CannotFixError if the mesh has several
    axes, or if the kernel's call is not in a function that takes arrays by position only.
    """
    if not given.axes:
        raise UnrelatedCureError("the program runs on one device")
    axis, *others = given.axes
    if others:
        raise CannotFixError("the mesh has several axes, and it is unknown which of them splits the rows")
    if any("shard_map" in site.file.list_names() for site in sites):
        raise UnrelatedCureError("the program has a `shard_map` already")
    declare(project, sites, replace(given, depth=max(given.depth, 1)))
    done: set[cst.CSTNode] = set()
    for site in sites:
        function = site.file.find_function(site.call)
        if function is None or function in done:
            continue
        done.add(function)
        name = function.name.value
        for caller in list_callers(project, site.file, function):
            user, call = caller.file, caller.call
            if call is None:
                raise CannotFixError(f"`{name}` is passed as a value{user.render_place(caller.node)}")
            if not call.args or any(one.keyword is not None or one.star for one in call.args):
                raise CannotFixError(f"`{name}` gets arguments other than arrays by position{user.render_place(call)}")
            _wrap(user, call, axis)
    if not done:
        raise CannotFixError("none of the functions that enclose the kernel's call can be wrapped in `shard_map`")


def _wrap(file: SourceFile, call: cst.Call, axis: str) -> None:
    jax = file.find_module_name("jax")
    spec = f'{jax}.sharding.PartitionSpec("{axis}")'

    def change(node: cst.CSTNode) -> cst.Call:
        assert isinstance(node, cst.Call)
        text = f"{jax}.shard_map(f, in_specs={spec}, out_specs={spec}, check_vma=False)"
        mapped = cst.ensure_type(cst.parse_expression(text), cst.Call)
        first = mapped.args[0].with_changes(value=node.func)
        return node.with_changes(func=mapped.with_changes(args=[first, *mapped.args[1:]]))

    if not get_name(call.func):
        raise CannotFixError(f"the function is not called by its name{file.render_place(call)}")
    file.change(call, change)
