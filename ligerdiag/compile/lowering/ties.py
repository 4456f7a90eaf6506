"""Ties single readers to kernel calls: a trivial operation makes a reader of a kernel's operand depend on the kernel's
result, so that XLA must run the reader after the kernel.

A reader is an operation that uses, after the kernel's call in program order, the storage of one of the kernel's operands.
Which operands a kernel overwrites is unknown here, so every operand of every custom call is considered. If the reader is a
kernel call itself, it would overwrite the tied value instead of the original. So `bisect.edges`, which searches for the ties
that make a program right, does not use such a tie.

A tie replaces one use of a value by `value + s - s`, where s is the sum of the kernel's first floating-point output, cast to
the value's type. (The example kernels in kernels/ have a mode `trivial`, which does so for all readers at once.) The sum is
computed right after the kernel and shared by all ties to this kernel. Cast, addition and subtraction are put right before
the reader. If the reader is in a function that calls the kernel's function, each function on the path returns the sum too. A
new operation has the location of the reader (the sum has the location of the kernel), with `ligerdiag tie` at the end of its
name. So the new operation counts as made by JAX's differentiation if the reader does. The module is tagged again afterwards.

Values share storage as in `analysis.evaluation.program_order`. Every operation that computes makes new storage, including
reshapes, casts, loops, branches and barriers. Arguments and results of a function are other names of the caller's values. An
element of a loop's state that the body returns unchanged, and a value that the loop's region takes from outside, are other
names of the outer value. So the next iteration, and readers after the loop, see what this iteration overwrites. Other
elements are the loop's own storage. If the call is in a function and the storage comes from a caller or is returned to it,
the callers read it after their call of the function.
"""

import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from jaxlib.mlir import ir

from ligerdiag.artifacts.call_records import Readers, TieSite
from ligerdiag.compile.lowering.kernel_calls import LoweredCall
from ligerdiag.compile.lowering.tags import (
    iterate_lines,
    read_name,
    read_tag,
    rename_location,
    replace_operation,
    strip_tag,
    walk_operations,
)
from ligerdiag.compile.lowering.traced_calls import TracedCall
from ligerdiag.errors import CompileError, InputError, describe_fault, is_project_file
from ligerdiag.hlo.custom_calls import CallTrait, has_trait
from ligerdiag.model.findings import SourceLine

_TENSOR = re.compile(r"tensor<((?:\d+x)*)([^x<>]+(?:<[^<>]+>)?)(?:, .*)?>$")
_FLOATING = re.compile(r"(?:bf16|f16|f32|f64)$")
_SUMMABLE = re.compile(r"(?:b?f\d.*|[us]?i(?:[2-9]|\d\d+)|complex<f\d+>)$")
_NAMES = {"i1": "pred", "complex<f32>": "c64", "complex<f64>": "c128"}


type AliasPath = tuple[tuple[int, int, int], ...]
"""The place of an operation in its module: (region, block, position) at each level, from the module down to the
operation.
"""


LOOP = "stablehlo.while"


CALL = "func.call"


RETURN = "func.return"


FUNCTION = "func.func"


CUSTOM_CALL = "stablehlo.custom_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A read of the storage of a kernel's operand, after the kernel's call in program order."""

    tag: int
    operand: int
    through: tuple[int, ...]
    """Tags (numbers) of the function calls that lead from the reader's function to the kernel's; empty if both are the
    same function.
    """
    untieable: str
    """The reason why the kernel's results are not available at the reader (`TieSite.unreachable`); empty if they are.
    Even then the types of the values may rule out a tie.
    """


class AliasedStorage:
    """The operations of a module, and the sets of values that share storage. `operations` has each operation by its
    tag, a number. `paths` has the position of each operation in the module, by tag: regions, blocks and positions (see
    `AliasPath`).
    """

    def __init__(self, module: Any) -> None:
        """Reads the module, which must not change as long as this object is used."""
        self.operations: dict[int, Any] = {read_tag(one): one for one in walk_operations(module.operation)}
        self.paths: dict[int, AliasPath] = {}
        self._tags: dict[AliasPath, int] = {}
        self._uses: dict[Any, list[tuple[int, int]]] = {}
        self._scopes: dict[Any, int] = {}
        """Each value to the nesting depth of the block that defines it, as the length of the path of an operation in
        that block.
        """
        self._functions: dict[str, int] = {}
        self._calls: dict[int, list[int]] = {}
        """Tag of each function to the tags of the operations that call it."""
        for path, operation in _walk_paths(module.operation, ()):
            self._add(read_tag(operation), path, operation)
        self._above: dict[Any, Any] = {}
        self._joined: set[int] = set()
        for function in self._functions.values():
            self._join_names(function)

    def kernels(self) -> Iterator[int]:
        """Yields the tag of each custom call that may launch a kernel. Custom calls that only instruct XLA's
        partitioner are left out. The tag is the number of the operation.
        """
        for tag, operation in self.operations.items():
            if is_kernel(operation):
                yield tag

    def find_uses(self, call: int, operand: int) -> Iterator[Use]:
        """Yields the reads of an operand's storage that come after the kernel call in program order.

        call: the call's tag (the number of the operation). operand: number of the operand.
        """
        yield from self._find_uses(call, [self.operations[call].operands[operand]], (), "")

    def explain_hand_on(self, tag: int, operand: int) -> str:
        """Returns the reason why an operand of a function call cannot get a tie. Returns an empty string if it can. A
        tie is a trivial operation that replaces one use of a value. It is impossible if the function passes the operand
        to a kernel, or returns it: the tie would then change more than a read.

        tag: the number of the function call; for any other operation the result is empty.
        """
        if self.operations[tag].name != CALL:
            return ""
        function = self._functions[_read_callee(self.operations[tag])]
        name = _read_symbol(self.operations[function])
        for value in self._names(self._arguments(function)[operand]):
            for user, number in self._uses.get(value, ()):
                if is_kernel(self.operations[user]):
                    return f"the function `{name}` passes the value to a kernel, which would get a copy"
                if self.operations[user].name == RETURN:
                    return f"the function `{name}` returns the value, and would return a copy"
                if reason := self.explain_hand_on(user, number):
                    return reason
        return ""

    def _find_uses(self, at: int, seeds: list[Any], through: tuple[int, ...], trouble: str) -> Iterator[Use]:
        function = self._tags[self.paths[at][:1]]
        escaping: list[Any] = []
        for value in dict.fromkeys(name for seed in seeds for name in self._names(seed)):
            scope = min(self._scopes[name] for name in self._names(value))
            around = [self._tags[self.paths[at][:depth]] for depth in range(scope, len(self.paths[at]))]
            loops = [tag for tag in around if self.operations[tag].name == LOOP]
            escaping.append(value)
            for tag, number in self._uses.get(value, ()):
                if tag == at or self._is_inner_return(tag):
                    continue
                reason = self._relate(tag, at, loops)
                if reason is not None:
                    yield Use(tag=tag, operand=number, through=through, untieable=trouble or reason)
        arguments, returned = self._arguments(function), self._returned(function)
        inputs = [number for number, value in enumerate(arguments) if value in escaping]
        outputs = [number for number, value in enumerate(returned) if value in escaping]
        if len(self.paths[at]) > 2:
            trouble = trouble or self._describe_region(at)
        for call in self._calls.get(function, ()) if inputs or outputs else ():
            operation = self.operations[call]
            outer = [operation.operands[number] for number in inputs] + [operation.results[n] for n in outputs]
            yield from self._find_uses(call, outer, (call, *through), trouble)

    def _relate(self, tag: int, at: int, loops: list[int]) -> str | None:
        """Returns how the operation `tag` relates to the kernel call `at` (both are tags, the numbers of operations):
        None if the operation does not run after the call, and so cannot read what the kernel wrote. If it does, returns
        the reason why this operation cannot be tied to the kernel call; empty if it can.

        loops: tags of the loops around the call whose iterations share the storage.
        """
        path, call = self.paths[tag], self.paths[at]
        is_inside = any(self.paths[loop] == path[: len(self.paths[loop])] and loop != tag for loop in loops)
        depth = next((d for d, (one, other) in enumerate(zip(path, call, strict=False)) if one != other), None)
        is_after = depth is not None and path[depth][:2] == call[depth][:2] and path[depth] > call[depth]
        if is_after:
            return "" if depth == len(call) - 1 else self._describe_region(at)
        return "it reads, before the kernel, what an earlier iteration of the loop overwrote" if is_inside else None

    def _describe_region(self, at: int) -> str:
        around = self.operations[self._tags[self.paths[at][:-1]]]
        return f"the kernel is inside a `{around.name}`: its results are not available outside"

    def _is_inner_return(self, tag: int) -> bool:
        return self.operations[tag].name == RETURN and bool(self._calls.get(self._tags[self.paths[tag][:1]]))

    def _add(self, tag: int, path: AliasPath, operation: Any) -> None:
        self.paths[tag] = path
        self._tags[path] = tag
        for number, value in enumerate(operation.operands):
            self._uses.setdefault(value, []).append((tag, number))
        for value in operation.results:
            self._scopes[value] = len(path)
        for region in operation.regions:
            for block in region:
                for value in block.arguments:
                    self._scopes[value] = len(path) + 1
        if operation.name == FUNCTION:
            self._functions[_read_symbol(operation)] = tag

    @cached_property
    def _calls_in(self) -> dict[int, list[int]]:
        """From the tag (operation number) of each function to the tags of the function calls inside it."""
        return self._group_by_function(CALL)

    @cached_property
    def _loops_in(self) -> dict[int, list[int]]:
        """From the tag (operation number) of each function to the tags of the loops inside it."""
        return self._group_by_function(LOOP)

    def _group_by_function(self, name: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for tag, operation in self.operations.items():
            if operation.name == name:
                found.setdefault(self._tags[self.paths[tag][:1]], []).append(tag)
        return found

    def _join_names(self, function: int) -> None:
        """Records which values of the function share storage: the results of a call with the operands that the callee
        returns, and the elements of a loop's state that its body returns unchanged.
        """
        if function in self._joined:
            return
        self._joined.add(function)
        for tag in self._calls_in.get(function, ()):
            call = self.operations[tag]
            callee = self._functions[_read_callee(call)]
            self._calls.setdefault(callee, []).append(tag)
            self._join_names(callee)
            first: dict[Any, Any] = {
                self._root(value): operand
                for value, operand in zip(self._arguments(callee), call.operands, strict=True)
            }
            for value, result in zip(self._returned(callee), call.results, strict=True):
                same = first.setdefault(self._root(value), result)
                if same is not result:
                    self._above[self._root(result)] = self._root(same)

        for tag in sorted(self._loops_in.get(function, ()), reverse=True):  # inner loops first
            self._join_kept(self.operations[tag])

    def _join_kept(self, loop: Any) -> None:
        """Records that each element of a loop's state which the body returns unchanged shares its storage with the
        loop's operand and result.
        """
        condition, body = (region.blocks[0] for region in loop.regions)
        returned = list(list(body.operations)[-1].operation.operands)
        for number, argument in enumerate(body.arguments):
            if self._root(returned[number]) == self._root(argument):
                given = self._root(loop.operands[number])
                for other in (argument, condition.arguments[number], loop.results[number]):
                    if (name := self._root(other)) != given:
                        self._above[name] = given

    def _root(self, value: Any) -> Any:
        while value in self._above:
            value = self._above[value]
        return value

    def _names(self, value: Any) -> list[Any]:
        return self._classes.get(self._root(value), [value])

    @cached_property
    def _classes(self) -> dict[Any, list[Any]]:
        """The values that share storage, by the value that represents them; to be read only after all names have been
        joined.
        """
        found: dict[Any, list[Any]] = {}
        for value in self._above:
            found.setdefault(self._root(value), [self._root(value)]).append(value)
        return found

    def _arguments(self, function: int) -> list[Any]:
        return list(_entry(self.operations[function]).arguments)

    def _returned(self, function: int) -> list[Any]:
        return list(read_return(self.operations[function]).operands)


def is_kernel(operation: Any) -> bool:
    """Returns whether the operation is a custom call that may launch a kernel. Custom calls that only instruct XLA's
    partitioner do not count.
    """
    return operation.name == CUSTOM_CALL and not has_trait(read_target(operation), CallTrait.FOR_PARTITIONER)


def read_target(operation: Any) -> str:
    """Returns the call target of a custom call: the name by which XLA finds the code."""
    return ir.StringAttr(operation.attributes["call_target_name"]).value


def read_return(function: Any) -> Any:
    """Returns the return operation of the function, which is the last one."""
    return list(_entry(function).operations)[-1].operation


def find_calls_of(module: Any, function: Any) -> list[Any]:
    """Returns the operations of the module that call the function."""
    name = _read_symbol(function)
    return [one for one in walk_operations(module.operation) if one.name == CALL and _read_callee(one) == name]


def _entry(function: Any) -> Any:
    return function.regions[0].blocks[0]


def _read_symbol(function: Any) -> str:
    return ir.StringAttr(function.attributes["sym_name"]).value


def _read_callee(call: Any) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _walk_paths(operation: Any, above: AliasPath) -> Iterator[tuple[AliasPath, Any]]:
    """Yields (place in the module, operation) for all operations below this one, in the order of `walk_operations`.

    above: the place of `operation`. A place has one (region, block, position) for each level, see `AliasPath`.
    """
    for region_number, region in enumerate(operation.regions):
        for block_number, block in enumerate(region):
            for position, view in enumerate(block):
                path = (*above, (region_number, block_number, position))
                yield path, view.operation
                yield from _walk_paths(view.operation, path)


def find_readers(module: Any, traced: Sequence[TracedCall], lowered: Sequence[LoweredCall]) -> Readers:
    """Returns the operations of the tagged module that read the storage of a kernel's operand after the kernel's call.
    If they cannot be found, `Readers.trouble` has the reason, and nothing is raised.
    """
    names = {call.tag: next((asked.kernel for asked in traced if call.is_of(asked)), "") for call in lowered}
    try:
        program = AliasedStorage(module)
        found = [
            _describe(program, use, names.get(call, ""), call, operand)
            for call in program.kernels()
            for operand in range(len(program.operations[call].operands))
            for use in program.find_uses(call, operand)
        ]
    except Exception as fault:
        traceback.print_exception(fault)
        return Readers(trouble=f"the readers of the program cannot be found: {describe_fault(fault)}")
    found.sort(key=lambda one: (one.reader, one.reader_operand, one.call, one.operand, one.through))
    return Readers(found=tuple(found))


def find_floating_output(call: Any) -> Any:
    """Returns the first result of the kernel call with a floating-point type. Returns None if there is none."""
    return next((result for result in call.results if _FLOATING.match(_split_type(result)[1])), None)


def _describe(program: AliasedStorage, use: Use, kernel: str, call: int, operand: int) -> TieSite:
    kernel_call, reader = program.operations[call], program.operations[use.tag]
    value = reader.operands[use.operand]
    dimensions, element = _split_type(value)
    lines = (place for place in iterate_lines(reader.location) if is_project_file(place[0]))
    file, line = next(lines, ("", 0))
    handed_on = program.explain_hand_on(use.tag, use.operand)
    if not _SUMMABLE.match(element):
        trouble = f"ligerdiag cannot add to a value of type `{value.type}`"
    elif find_floating_output(kernel_call) is None:
        trouble = "the kernel returns no floating-point array to tie with"
    else:
        trouble = use.untieable or handed_on
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
        unreachable=use.untieable,
        no_barrier=handed_on if kernel_call.results else "the kernel returns nothing to wait for",
    )


def _split_type(value: Any) -> tuple[list[str], str]:
    """Returns (dimensions, element type) of a value's type; both are empty if the type is not an array of known shape."""
    found = _TENSOR.match(str(value.type))
    return ([], "") if found is None else (found[1].split("x")[:-1], found[2])


def _name_type(element: str) -> str:
    """Returns XLA's name of an MLIR element type, such as `s32`, `u8` or `pred`."""
    if element in _NAMES:
        return _NAMES[element]
    return f"s{element[1:]}" if re.match(r"i\d", element) else element.replace("ui", "u").lower()


_NAME = "ligerdiag tie"
_LISTED = 8
_NARROW = re.compile(r"b?f16$")


def put_ties(module: Any, readers: Readers, ids: Sequence[str], case_id: str, *, by_barrier: bool = False) -> None:
    """Makes the readers with these ids run after their kernels, by a tie before each reader. A tie is the trivial
    operation `value + s - s`, where `s` comes from the kernel's result. If `by_barrier` is true, it is an optimization
    barrier.

    module: the module in which the readers were found. Raises InputError for an id that is unknown or whose reader
    cannot be tied, CompileError if the readers could not be found or this jaxlib cannot insert the operations.
    """
    if not ids:
        return
    wanted = _choose(readers, ids, case_id, by_barrier=by_barrier)
    try:
        with module.context, ir.Location.unknown():
            writer = _TieWriter(module, by_barrier=by_barrier)
            for reader in wanted:
                writer.tie(reader)
    except Exception as fault:
        traceback.print_exception(fault)
        raise CompileError(
            f"cannot add an ordering dependence between kernel and reader in case `{case_id}` with this jaxlib:"
            f" {describe_fault(fault)}"
        ) from fault


def _choose(readers: Readers, ids: Sequence[str], case_id: str, *, by_barrier: bool) -> list[TieSite]:
    def find_trouble(reader: TieSite) -> str:
        return reader.unreachable or reader.no_barrier if by_barrier else reader.untieable

    if readers.trouble:
        raise CompileError(
            f"cannot add an ordering dependence between kernel and reader in case `{case_id}`: {readers.trouble}"
        )
    known = {reader.id: reader for reader in readers.found}
    for one in ids:
        if one not in known:
            listed = [f"`{name}`" for name, reader in known.items() if not find_trouble(reader)]
            rest = [f"{len(listed) - _LISTED} more"] if len(listed) > _LISTED else []
            there = ", ".join((*listed[:_LISTED], *rest)) or "none"
            raise InputError(
                f"case `{case_id}` has no reader `{one}`; the readers that can be tied to a kernel: {there}"
            )
        if trouble := find_trouble(known[one]):
            raise InputError(
                f"reader `{one}` of case `{case_id}` cannot be made to run after the kernel `{known[one].kernel}`:"
                f" {trouble}"
            )
    return [reader for reader in readers.found if reader.id in set(ids)]


class _TieWriter:
    """Inserts ties (trivial operations that make a reader depend on a kernel) into a module; finds operations by the
    tags (numbers) that they had before the module changed.
    """

    def __init__(self, module: Any, *, by_barrier: bool) -> None:
        self._module = module
        self._by_barrier = by_barrier
        self._operations: dict[int, Any] = {read_tag(one): one for one in walk_operations(module.operation)}
        self._sums: dict[int, Any] = {}
        """Tag of each kernel call to the operation whose only result is the sum of the kernel's output."""
        self._results: dict[tuple[int, ...], int] = {}
        """The result by which each called function returns the sum: from the tags of the calls that lead from the
        function to the kernel, the kernel call's last, to the number of that result.
        """

    def tie(self, reader: TieSite) -> None:
        """Inserts the trivial operation that makes this reader depend on its kernel."""
        total = self._find_sum((*reader.through, reader.call))
        operation = self._operations[reader.reader]
        value = operation.operands[reader.reader_operand]
        location = _derive_location(operation, self._operations[reader.call])
        with ir.InsertionPoint(operation), location:
            if self._by_barrier:
                operation.operands[reader.reader_operand] = _put_barrier(value, total)
                return
            total = _convert(total, value.type)
            if ir.RankedTensorType(value.type).rank:
                attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
                total = _put("stablehlo.broadcast_in_dim", [total], value.type, attributes).result
            added = _put("stablehlo.add", [value, total], value.type).result
            operation.operands[reader.reader_operand] = _put("stablehlo.subtract", [added, total], value.type).result

    def _find_sum(self, path: tuple[int, ...]) -> Any:
        """Returns the sum of the kernel's output as a scalar, or for a barrier the kernel's first output, available in
        the function that contains the first operation of the path.

        path: tags of the function calls that lead to the kernel, then the tag of the kernel call.
        """
        tag, *rest = path
        if not rest and self._by_barrier:
            return self._operations[tag].results[0]
        if not rest:
            if tag not in self._sums:
                self._sums[tag] = _put_sum(self._operations[tag])
            return self._sums[tag].result
        inner = tuple(rest)
        if inner not in self._results:
            total = self._find_sum(inner)
            self._results[inner] = return_more(
                self._module, self._operations, self._find_function(self._operations[inner[0]]), total
            )
        return self._operations[tag].results[self._results[inner]]

    def _find_function(self, operation: Any) -> Any:
        while operation.name != FUNCTION:
            operation = operation.parent.operation
        return operation


def return_more(module: Any, operations: dict[int, Any], function: Any, value: Any) -> int:
    """Makes the function return the value as a further result, and returns the number of this result.

    operations: the module's operations by tag. Replaces the `return` and the calls of the function by new operations,
    in the module and in `operations`.
    """

    def exchange(operation: Any, **more: list[Any]) -> None:
        tag = next(tag for tag, one in operations.items() if one == operation)
        operations[tag] = replace_operation(operation, operation.location, **more)

    kind: Any = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    results = [*kind.results, value.type]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(list(kind.inputs), results))
    if "res_attrs" in function.attributes:
        attributes = [*ir.ArrayAttr(function.attributes["res_attrs"]), ir.DictAttr.get({})]
        function.attributes["res_attrs"] = ir.ArrayAttr.get(attributes)
    exchange(read_return(function), more_operands=[value])
    for call in find_calls_of(module, function):
        exchange(call, more_results=[value.type])
    return len(results) - 1


def _put_barrier(value: Any, result: Any) -> Any:
    """Inserts an optimization barrier around the value and the kernel's result; returns the value behind the barrier."""
    operations: Any = ir.Operation
    kinds = [value.type, result.type]
    return operations.create("stablehlo.optimization_barrier", results=kinds, operands=[value, result]).results[0]


def _put_sum(kernel: Any) -> Any:
    """Inserts the sum of the kernel's first floating-point output, computed at least in f32, right after the kernel;
    returns the operation that computes the sum.
    """
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
    """Yields each pair of adjacent operations in the blocks of `operation`."""
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
    """Returns the location of `operation`, or that of `otherwise` if the first has no name, with `ligerdiag tie` at the
    end of its name.
    """
    location = operation.location
    name = strip_tag(read_name(location) or "")
    if not name:
        location = otherwise.location
        name = strip_tag(read_name(location) or "")
    return rename_location(location, f"{name}/{_NAME}" if name else _NAME, location.context)
