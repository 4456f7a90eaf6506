"""Finds the program's kernel calls, and which of them reach XLA.

A kernel that is called only for its effect has no used output. JAX drops such a call while it traces or lowers, or MLIR
drops it on the way from StableHLO to HLO. To detect this, four lists are compared:

- the binds of kernel primitives during tracing, that is, the calls that the program makes (see `traced_calls`);
- the equations of kernel primitives in the traced program, each sub-program once;
- the custom calls of the StableHLO module, with their tags (the numbers that ligerdiag gives to operations);
- the tags in the unoptimized HLO.

A custom call belongs to the traced call with the same name (`call_names`). If one of the two has no name, it belongs to the
traced call with the same kernel and the same lines of the user's code. If fewer calls of a kernel arrive than were traced
through the same lines, those without used outputs are missing, because the others cannot be dropped.

A bind without an equation is not missing in two cases. It may have happened in the function of a `custom_vjp` or
`custom_jvp` whose rule replaced that function (`traced_calls.RuleCall`). Or `jax.eval_shape` traced it, and the program has
the call through the same line. An equation in the function of a `custom_partitioning` represents the call that XLA's
partitioner inserts; it reaches XLA if the `custom_partitioning` does (see `partitioned`).

A missing call is lowered by itself, so that its effects can be read like those of any other call.
"""

import base64
import re
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import jax
from jax.extend import core as jex_core
from jaxlib.mlir import ir

from ligerdiag.artifacts.artifact import KernelCall, LoneCall
from ligerdiag.compile.cases.plugin import find_platform
from ligerdiag.compile.cases.stablehlo_program import walk_operations
from ligerdiag.compile.lowering.jax_versions import is_reference
from ligerdiag.compile.lowering.other_kernels import OTHER_PRIMITIVES
from ligerdiag.compile.lowering.tags import (
    drop_call_name,
    iterate_lines,
    read_call_name,
    read_name,
    read_tag,
)
from ligerdiag.compile.lowering.traced_calls import Bind, Lines, TracedCall, compute_kernel_name, read_traceback
from ligerdiag.errors import is_project_file
from ligerdiag.model.findings import SourceLine

PRIMITIVES = ("triton_kernel_call", "pallas_call", *OTHER_PRIMITIVES)

_REF = "AbstractRef"
"""Name of the class of a `Ref`'s type; JAX does not export the class."""
_TAG = re.compile(rb"#ld(\d+)")
_OPERATION_TAG = re.compile(r"#ld(\d+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredCall:
    """A custom call in the tagged StableHLO module. It may be a kernel call."""

    tag: int
    text: bytes
    """The custom call's decompressed backend config, which contains the kernel."""
    lines: Lines
    alone: LoneCall
    """The same custom call by itself, outside of its module."""
    name: str = ""
    """The name that ligerdiag gives the call during tracing, see `call_names`; may be empty."""

    def is_of(self, call: TracedCall) -> bool:
        """Returns whether the custom call comes from this call in the user's code. Both must have the same name. If one
        of them has no name, both must have the same lines and kernel.
        """
        if self.name and call.name:
            return self.name == call.name
        depth = min(len(self.lines), len(call.lines))
        if depth == 0 or self.lines[:depth] != call.lines[:depth]:
            return False
        return self.holds(call)

    def holds(self, call: TracedCall) -> bool:
        """Returns whether the custom call may launch the kernel of `call`. It may if its backend config defines a
        kernel of that name. It also may if the backend config has no Triton IR as text, because names cannot be
        compared then.
        """
        return b"tt.func" not in self.text or b"@%s(" % call.kernel.encode() in self.text


def find_traced_calls(closed: Any, binds: Sequence[Bind], names: Sequence[str] = PRIMITIVES) -> tuple[TracedCall, ...]:
    """Returns the kernel calls in the closed jaxpr and its sub-programs, followed by the missing calls. A missing call
    is one that the program makes, but that has no equation in the jaxpr.

    binds: all kernel calls that were recorded while the program was traced. names: the names of the primitives whose
    calls were recorded.
    """
    calls: list[TracedCall] = []
    for jaxpr in _walk_jaxprs(closed.jaxpr, set()):
        given = () if jaxpr is closed.jaxpr else (*jaxpr.invars, *jaxpr.constvars)
        for index, equation in enumerate(jaxpr.eqns):
            if equation.primitive.name in names:
                calls.append(_with_site(_describe_equation(jaxpr, index, equation, given), binds))
    dropped = {
        bind.call.name or (bind.call.kernel, bind.call.lines): bind for bind in binds if _is_missing(bind, calls)
    }
    return (*calls, *(_describe_missing(bind) for bind in dropped.values()))


def find_lowered_calls(module: ir.Module) -> tuple[LoweredCall, ...]:
    """Returns the custom calls of the tagged StableHLO module."""
    calls: list[LoweredCall] = []
    for operation in walk_operations(module.operation):
        if operation.name != "stablehlo.custom_call":
            continue
        location = operation.location
        tag = _OPERATION_TAG.search(read_name(location) or "")
        if tag is not None:
            lines = tuple(place for place in iterate_lines(location) if is_project_file(place[0]))
            calls.append(
                LoweredCall(
                    tag=int(tag[1]),
                    text=read_config(operation),
                    lines=lines,
                    alone=read_custom_call(operation),
                    name=read_call_name(read_name(location)),
                )
            )
    return tuple(calls)


def find_dropped_calls(module: ir.Module, marked: ir.Module) -> tuple[LoweredCall, ...]:
    """Returns the kernel calls of `marked` that `module` lacks.

    marked: the module that records the author's intent (see `intent`). An operation has the same tag (number) in both
    modules.
    """
    known = {read_tag(operation) for operation in walk_operations(module.operation)}
    return tuple([call for call in find_lowered_calls(marked) if call.name and call.tag not in known])


def find_live_tags(unoptimized: bytes) -> frozenset[int]:
    """Returns the tags (numbers of operations) that the serialized unoptimized module contains. These are the
    operations that JAX gave to XLA.
    """
    return frozenset(int(number) for number in _TAG.findall(unoptimized))


def compute_kernel_calls(
    traced: Sequence[TracedCall],
    lowered: Sequence[LoweredCall],
    live: frozenset[int],
    dropped: Sequence[LoweredCall] = (),
) -> tuple[KernelCall, ...]:
    """Returns a record for each traced call. The record says whether XLA gets the call.

    live: the tags (numbers) of the operations that XLA gets. dropped: kernel calls of the program as written that the
    program for XLA lacks.
    """
    tags = _match_tags(traced, lowered)
    arrived = [tuple(tag for tag in numbers if tag in live) for numbers in tags]
    by_tag = {call.tag: call for call in lowered}
    settled: list[KernelCall] = []
    for asked, numbers, alive in zip(traced, tags, arrived, strict=True):
        twins = sum(other.is_same(asked) for other in traced)
        in_program = bool(alive) and (asked.outputs_used or len(alive) >= twins)
        settled.append(
            KernelCall(
                kernel=asked.kernel,
                primitive=asked.primitive,
                operands=asked.operands,
                outputs=asked.outputs,
                source=SourceLine(
                    file=asked.lines[0][0] if asked.lines else "",
                    line=asked.lines[0][1] if asked.lines else 0,
                    function=asked.function,
                ),
                name_stack=asked.name_stack,
                traced=asked.traced,
                in_program=in_program,
                operand_used_later=asked.operand_used_later,
                tags=numbers,
                site=asked.site,
                repeated=asked.repeated,
                dropped=tuple([call.tag for call in dropped if call.is_of(asked)]),
                call=asked.name,
                alone=None if in_program else asked.alone or next((by_tag[tag].alone for tag in numbers), None),
            )
        )
    return tuple(settled)


def _match_tags(traced: Sequence[TracedCall], lowered: Sequence[LoweredCall]) -> list[tuple[int, ...]]:
    """Returns, for each traced call, the tags (numbers of operations) of its custom calls. JAX knows no line of a call
    that a remat repeats, so a repeated call gets the tags that belong to no other call.
    """
    tags = [tuple(call.tag for call in lowered if call.is_of(asked)) for asked in traced]
    taken = {tag for numbers in tags for tag in numbers}
    return [
        numbers
        or tuple(call.tag for call in lowered if not asked.lines and call.tag not in taken and call.holds(asked))
        for asked, numbers in zip(traced, tags, strict=True)
    ]


def _with_site(call: TracedCall, binds: Sequence[Bind]) -> TracedCall:
    """Returns the call with the user's line that made it; unchanged if the binds (calls recorded during tracing) that
    may have become this call come from several lines.
    """
    sites = {bind.call.site for bind in binds if bind.call.site is not None and _is_bind_of(bind.call, call)}
    return replace(call, site=sites.pop()) if len(sites) == 1 else call


def _is_missing(bind: Bind, calls: Sequence[TracedCall]) -> bool:
    asked = bind.call
    if bind.is_replaced or any(_is_bind_of(asked, call) for call in calls):
        return False
    return not (
        bind.for_shapes and any((call.kernel, call.lines[:1]) == (asked.kernel, asked.lines[:1]) for call in calls)
    )


def _describe_missing(bind: Bind) -> TracedCall:
    alone = lower_alone(bind.primitive, bind.params, bind.avals) if bind.call.outputs else None
    return replace(bind.call, alone=alone)


def _is_bind_of(bind: TracedCall, call: TracedCall) -> bool:
    lines = bind.lines[: len(call.lines)] if bind.whole_stack else bind.lines
    if bind.name and call.name:
        return bind.name == call.name
    return bind.kernel == call.kernel and lines == call.lines


def has_partitioned(closed: Any) -> bool:
    """Returns whether the closed jaxpr or one of its sub-programs calls a `custom_partitioning`."""
    jaxprs = _walk_jaxprs(closed.jaxpr, set())
    return any(equation.primitive.name == "custom_partitioning" for jaxpr in jaxprs for equation in jaxpr.eqns)


def _walk_jaxprs(jaxpr: Any, seen: set[int]) -> Iterator[Any]:
    """Yields the jaxpr and all of its sub-programs except kernels, each once."""
    if id(jaxpr) in seen:
        return
    seen.add(id(jaxpr))
    yield jaxpr
    for equation in jaxpr.eqns:
        if equation.primitive.name not in PRIMITIVES:
            for sub in list_subprograms(equation):
                yield from _walk_jaxprs(sub, seen)


def list_subprograms(equation: Any) -> list[Any]:
    """Returns the jaxprs among the parameters of an equation, without their constants."""
    found: list[Any] = []
    for value in equation.params.values():
        items = cast("Sequence[Any]", value if isinstance(value, tuple | list) else (value,))
        for item in items:
            if isinstance(item, jex_core.ClosedJaxpr):
                found.append(item.jaxpr)
            elif isinstance(item, jex_core.Jaxpr):
                found.append(item)
    return found


def _describe_equation(jaxpr: Any, index: int, equation: Any, given: Sequence[Any]) -> TracedCall:
    """Returns the record of the kernel call that an equation makes: the one at `index` among the jaxpr's equations.

    given: the inputs and constants of the jaxpr if it is a sub-program. The surrounding program may read them after the
    call, so an operand among them counts as used later.
    """
    later = [variable for other in jaxpr.eqns[index + 1 :] for variable in other.invars]
    readers = {id(variable) for variable in (*later, *jaxpr.outvars)}
    read_later = readers | {id(variable) for variable in given}
    lines, function = read_traceback(equation.source_info.traceback)
    used = any(id(variable) in readers for variable in equation.outvars)
    avals = [variable.aval for variable in equation.invars]
    has_results = bool(equation.outvars) or any(map(is_reference, avals))
    return TracedCall(
        kernel=compute_kernel_name(equation.params),
        primitive=equation.primitive.name,
        operands=len(equation.invars),
        outputs=len(equation.outvars) + sum(is_reference(aval) for aval in avals),
        lines=lines,
        function=function,
        name_stack=drop_call_name(str(equation.source_info.name_stack)),
        name=read_call_name(equation.source_info.name_stack),
        traced=True,
        outputs_used=used,
        operand_used_later=any(
            id(variable) in read_later for variable in equation.invars if not isinstance(variable, jex_core.Literal)
        ),
        repeated=_find_repeated(equation.invars),
        alone=lower_alone(equation.primitive, equation.params, avals) if has_results and not used else None,
    )


def _find_repeated(operands: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Returns, for each `Ref` that occurs more than once, the numbers of the operands that are this `Ref`."""
    places: dict[int, list[int]] = {}
    for number, variable in enumerate(operands):
        if type(variable.aval).__name__ == _REF:
            places.setdefault(id(variable), []).append(number)
    return tuple([tuple(numbers) for numbers in places.values() if len(numbers) > 1])


def read_config(operation: Any) -> bytes:
    """Returns the backend config of a custom call as bytes. A string attribute is decompressed if necessary; a
    dictionary attribute is printed as text.
    """
    attributes = operation.attributes
    if "backend_config" not in attributes:
        return b""
    attribute = attributes["backend_config"]
    if not isinstance(attribute, ir.StringAttr):
        return str(attribute).encode()
    try:
        return zlib.decompress(attribute.value_bytes)
    except zlib.error:
        return attribute.value_bytes


_OPERAND = re.compile(r"operand_index = (\d+)")


def lower_alone(primitive: Any, params: Mapping[str, Any], avals: Sequence[Any]) -> LoneCall | None:
    """Lowers one call of this primitive by itself, on operands of these types, and returns the custom call. Returns
    None if the lowering fails. The traceback is then in the log.
    """
    try:
        library: Any = jax
        module = library.jit(make_function(primitive, params, avals), keep_unused=True).trace(
            *(make_shape(aval) for aval in avals)
        )
        operations = walk_operations(
            module.lower(lowering_platforms=(find_platform().value,)).compiler_ir("stablehlo").operation
        )
        (call,) = [operation for operation in operations if operation.name == "stablehlo.custom_call"]
        return read_custom_call(call)
    except Exception as fault:
        traceback.print_exception(fault)
        return None


def make_function(primitive: Any, params: Mapping[str, Any], avals: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """Returns a function of arrays that calls the primitive. It returns the results of the call, followed by the new
    contents of each Ref.
    """
    library: Any = jax

    def function(*arrays: Any) -> tuple[Any, ...]:
        held = [
            library.new_ref(array) if is_reference(aval) else array for array, aval in zip(arrays, avals, strict=True)
        ]
        results = primitive.bind(*held, **params)
        contents = [one[...] for one, aval in zip(held, avals, strict=True) if is_reference(aval)]
        return (*(results if primitive.multiple_results else (results,)), *contents)

    return function


def make_shape(aval: Any) -> jax.ShapeDtypeStruct:
    """Returns the shape and element type of an array type. For a Ref, returns those of the Ref's contents."""
    inner = getattr(aval, "inner_aval", aval)
    return jax.ShapeDtypeStruct(inner.shape, inner.dtype)


def read_custom_call(operation: Any) -> LoneCall:
    """Returns the record of the custom call: its target, its backend config as XLA gets it, and its aliases."""
    attributes = operation.attributes
    aliases = str(attributes["output_operand_aliases"]) if "output_operand_aliases" in attributes else ""
    return LoneCall(
        target=ir.StringAttr(attributes["call_target_name"]).value,
        config=base64.b64encode(_read_stored_config(attributes)).decode(),
        declared=tuple(sorted({int(number) for number in _OPERAND.findall(aliases)})),
    )


def _read_stored_config(attributes: Any) -> bytes:
    """Returns a custom call's backend config in the form in which XLA stores it: a string unchanged, a dictionary as
    printed.
    """
    name = "mhlo.backend_config" if "mhlo.backend_config" in attributes else "backend_config"
    if name not in attributes:
        return b""
    attribute = attributes[name]
    return attribute.value_bytes if isinstance(attribute, ir.StringAttr) else str(attribute).encode()
