"""Worker side: finds where a trivial operation can tie a kernel call to one reader, and puts it there.

Each use of the storage that the kernel was given, by operations after the call in program order (`stablehlo_alias`), is one
place. Which operands a kernel overwrites is not known here: every operand of every custom call is looked at. A reader
that is a kernel call itself would overwrite the tied value in the place of the original: `bisect` leaves that alone.

Worker side: puts trivial operations between kernel calls and single readers, into a tagged StableHLO module.

A tie replaces one use of a value by `value + s - s`, s being the sum of the kernel's first floating-point output, cast to
the value's type: what the `trivial` mode of kernels/ does for all readers at once.

1. The sum stands after the kernel and is shared by its ties; cast, addition and subtraction stand before the reader.
2. If the reader is in a function that calls the kernel's, each function on the way returns the sum, too.
3. A new operation has the location of the reader, that of the sum the kernel's, and `ligerdiag tie` at the end of its
   name: it belongs to autodiff if the reader does. The module is tagged anew afterwards.
"""

import re
import traceback
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from jaxlib.mlir import ir

from ligerdiag.artifacts.call_records import Readers, TieSite
from ligerdiag.compile.lowering.kernel_calls import LoweredCall
from ligerdiag.compile.lowering.stablehlo_alias import FUNCTION, Program, Use, find_calls_of, read_return, read_target
from ligerdiag.compile.lowering.tags import (
    iterate_lines,
    make_anew,
    read_name,
    read_tag,
    rename_location,
    strip_tag,
    walk_operations,
)
from ligerdiag.compile.lowering.traced_calls import TracedCall
from ligerdiag.errors import CompileError, InputError, describe_fault, is_project_file
from ligerdiag.model.findings import SourceLine

_TENSOR = re.compile(r"tensor<((?:\d+x)*)([^x<>]+(?:<[^<>]+>)?)(?:, .*)?>$")
_FLOATING = re.compile(r"(?:bf16|f16|f32|f64)$")
_SUMMABLE = re.compile(r"(?:b?f\d.*|[us]?i(?:[2-9]|\d\d+)|complex<f\d+>)$")
_NAMES = {"i1": "pred", "complex<f32>": "c64", "complex<f64>": "c128"}


def find_readers(module: Any, traced: Sequence[TracedCall], lowered: Sequence[LoweredCall]) -> Readers:
    """Returns the readers of the tagged module; never raises, says what is in the way instead."""
    names = {call.tag: next((asked.kernel for asked in traced if call.is_of(asked)), "") for call in lowered}
    try:
        program = Program(module)
        found = [
            _describe(program, use, names.get(call, ""), call, operand)
            for call in program.kernels()
            for operand in range(len(program.operations[call].operands))
            for use in program.find_uses(call, operand)
        ]
    except Exception as fault:
        traceback.print_exception(fault)
        return Readers(trouble=f"the program's readers are not understood: {describe_fault(fault)}")
    found.sort(key=lambda one: (one.reader, one.reader_operand, one.call, one.operand, one.through))
    return Readers(found=tuple(found))


def find_floating_output(call: Any) -> Any:
    """Returns the first result of floating type of a kernel call; None when there is none."""
    return next((result for result in call.results if _FLOATING.match(_split_type(result)[1])), None)


def _describe(program: Program, use: Use, kernel: str, call: int, operand: int) -> TieSite:
    kernel_call, reader = program.operations[call], program.operations[use.tag]
    value = reader.operands[use.operand]
    dimensions, element = _split_type(value)
    lines = (place for place in iterate_lines(reader.location) if is_project_file(place[0]))
    file, line = next(lines, ("", 0))
    if not _SUMMABLE.match(element):
        trouble = f"a value of type `{value.type}` has no sum"
    elif find_floating_output(kernel_call) is None:
        trouble = "the kernel returns no floating-point array to tie with"
    else:
        trouble = use.untieable or program.is_handed_on(use.tag, use.operand)
    path = "/".join(str(tag) for tag in (*use.through, call))
    return TieSite(
        id=f"{path}.{operand}:{use.tag}.{use.operand}",
        kernel=kernel or read_target(kernel_call),
        call=call,
        operand=operand,
        through=use.through,
        reader=use.tag,
        reader_operand=use.operand,
        opcode=reader.name,
        shape=f"{_name_type(element)}[{','.join(dimensions)}]" if element else str(value.type),
        source=SourceLine(file=file, line=line, function=""),
        untieable=trouble,
    )


def _split_type(value: Any) -> tuple[list[str], str]:
    """Dimensions and element type of an array of known shape; the type is empty for anything else."""
    found = _TENSOR.match(str(value.type))
    return ([], "") if found is None else (found[1].split("x")[:-1], found[2])


def _name_type(element: str) -> str:
    """Returns the type's name in XLA: `s32`, `u8`, `pred`; MLIR's own name where they are the same."""
    if element in _NAMES:
        return _NAMES[element]
    return f"s{element[1:]}" if re.match(r"i\d", element) else element.replace("ui", "u").lower()


NAME = "ligerdiag tie"
_LISTED = 8
_NARROW = re.compile(r"b?f16$")


def put_ties(module: Any, readers: Readers, ids: Sequence[str], case_id: str) -> None:
    """Ties these readers of the module as it was when they were found.

    Raises InputError for an id that is none of them or cannot be tied, CompileError when there is no telling.
    """
    wanted = _choose(readers, ids, case_id)
    try:
        with module.context, ir.Location.unknown():
            weaver = _Weaver(module)
            for reader in wanted:
                weaver.tie(reader)
    except Exception as fault:
        traceback.print_exception(fault)
        raise CompileError(f"case `{case_id}` cannot be tied with this jaxlib: {describe_fault(fault)}") from fault


def _choose(readers: Readers, ids: Sequence[str], case_id: str) -> list[TieSite]:
    if readers.trouble:
        raise CompileError(f"case `{case_id}` cannot be tied: {readers.trouble}")
    known = {reader.id: reader for reader in readers.found}
    for one in ids:
        if one not in known:
            listed = [f"`{name}`" for name, reader in known.items() if not reader.untieable]
            rest = [f"{len(listed) - _LISTED} more"] if len(listed) > _LISTED else []
            there = ", ".join((*listed[:_LISTED], *rest)) or "no reader that can be tied"
            raise InputError(f"no reader `{one}` in the program of case `{case_id}`: there is {there}")
        if known[one].untieable:
            raise InputError(f"reader `{one}` of case `{case_id}` cannot be tied: {known[one].untieable}")
    return [reader for reader in readers.found if reader.id in set(ids)]


class _Weaver:
    """The operations of the module by the tags that they had, while the module changes."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._operations: dict[int, Any] = {read_tag(one): one for one in walk_operations(module.operation)}
        self._sums: dict[int, Any] = {}
        """Tag of a kernel call to the operation whose only result is the sum."""
        self._results: dict[tuple[int, ...], int] = {}
        """(tags of calls from a function to the kernel, the kernel's) to the number of the function's result."""

    def tie(self, reader: TieSite) -> None:
        """Replaces the one use."""
        total = self._find_sum((*reader.through, reader.call))
        operation = self._operations[reader.reader]
        value = operation.operands[reader.reader_operand]
        location = _derive_location(operation, self._operations[reader.call])
        with ir.InsertionPoint(operation), location:
            total = _convert(total, value.type)
            if ir.RankedTensorType(value.type).rank:
                attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
                total = _put("stablehlo.broadcast_in_dim", [total], value.type, attributes).result
            added = _put("stablehlo.add", [value, total], value.type).result
            operation.operands[reader.reader_operand] = _put("stablehlo.subtract", [added, total], value.type).result

    def _find_sum(self, path: tuple[int, ...]) -> Any:
        """Returns the scalar, in the function where the path begins."""
        tag, *rest = path
        if not rest:
            if tag not in self._sums:
                self._sums[tag] = _put_sum(self._operations[tag])
            return self._sums[tag].result
        inner = tuple(rest)
        if inner not in self._results:
            total = self._find_sum(inner)
            self._results[inner] = self._return(self._find_function(self._operations[inner[0]]), total)
        return self._operations[tag].results[self._results[inner]]

    def _return(self, function: Any, value: Any) -> int:
        """Makes the function return the value, too, and says which result that is."""
        kind: Any = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        results = [*kind.results, value.type]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(list(kind.inputs), results))
        if "res_attrs" in function.attributes:
            attributes = [*ir.ArrayAttr(function.attributes["res_attrs"]), ir.DictAttr.get({})]
            function.attributes["res_attrs"] = ir.ArrayAttr.get(attributes)
        self._replace(read_return(function), more_operands=[value])
        for call in find_calls_of(self._module, function):
            self._replace(call, more_results=[value.type])
        return len(results) - 1

    def _replace(self, operation: Any, **more: list[Any]) -> None:
        tag = next(tag for tag, one in self._operations.items() if one == operation)
        self._operations[tag] = make_anew(operation, operation.location, **more)

    def _find_function(self, operation: Any) -> Any:
        while operation.name != FUNCTION:
            operation = operation.parent.operation
        return operation


def _put_sum(kernel: Any) -> Any:
    """Returns the operation that sums up the kernel's first floating-point output, right behind the kernel; f32 at
    least."""
    output = find_floating_output(kernel)
    following = next(after for before, after in _iterate_pairs(kernel.parent) if before.operation == kernel)
    kind = ir.RankedTensorType(output.type)
    narrow = bool(_NARROW.match(str(kind.element_type)))
    element = ir.F32Type.get() if narrow else kind.element_type
    scalar = ir.RankedTensorType.get([], element)
    with ir.InsertionPoint(following), _derive_location(kernel, kernel):
        zero = ir.DenseElementsAttr.get_splat(scalar, ir.FloatAttr.get(element, 0.0))
        start = _put("stablehlo.constant", [], scalar, {"value": zero})
        wide = _convert(output, ir.RankedTensorType.get(kind.shape, element))
        attributes = {"dimensions": ir.DenseI64ArrayAttr.get(list(range(kind.rank)))}
        total = _put("stablehlo.reduce", [wide, start.result], scalar, attributes, regions=1)
        location = ir.Location.current
        body = total.regions[0].blocks.append(scalar, scalar, arg_locs=[location, location])
        with ir.InsertionPoint(body):
            _put("stablehlo.return", [_put("stablehlo.add", list(body.arguments), scalar).result])
    return total


def _iterate_pairs(operation: Any) -> Iterator[tuple[Any, Any]]:
    """Neighbours in the blocks of the operation."""
    for region in operation.operation.regions:
        for block in region:
            yield from pairwise(block.operations)


def _convert(value: Any, kind: Any) -> Any:
    element = ir.RankedTensorType(kind).element_type
    given = ir.RankedTensorType(value.type)
    if given.element_type == element:
        return value
    return _put("stablehlo.convert", [value], ir.RankedTensorType.get(given.shape, element)).result


def _put(
    name: str, operands: list[Any], kind: Any = None, attributes: dict[str, Any] | None = None, *, regions: int = 0
) -> Any:
    operations: Any = ir.Operation
    results = [] if kind is None else [kind]
    return operations.create(name, results=results, operands=operands, attributes=attributes or {}, regions=regions)


def _derive_location(operation: Any, otherwise: Any) -> Any:
    """Returns the operation's location, or the other's if it has no name, under a name of our own."""
    location = operation.location
    name = strip_tag(read_name(location) or "")
    if not name:
        location = otherwise.location
        name = strip_tag(read_name(location) or "")
    return rename_location(location, f"{name}/{NAME}" if name else NAME, location.context)
