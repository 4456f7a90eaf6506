"""Runs the program as its author meant it, each value in its own storage, and finds the origin of its first NaN.

Program order has the rules of `analysis.evaluation.program_order`, on numbers instead of sets of dependences:

- Instructions run in the order of their tags.
- Every instruction that computes makes a new cell, the storage of one array (`ops.scope.Cell`). `tuple`,
  `get-tuple-element` and the parameters of a `call` or a branch are other names for existing cells. So are those
  elements of a loop's state that its body returns unchanged; the others are cells of the loop, new in each iteration.
- A kernel overwrites the contents of its operand's cell, for every later read.
- Snapshots keep the version of a value, its contents before or after a kernel's write, that autodiff means to read: they
  are copies that ligerdiag has added to the program for this purpose (see `compile.lowering.intent`).
- Inside of a shard_map each device has its own values, and all devices run in lockstep. A value that does not depend on
  the device is stored once, unless a kernel may overwrite it. A kernel that overwrites pieces of an array from outside
  overwrites that array.

In isolated memory a kernel leaves its operands unchanged, so every read is a stale read. The run observes which
operands a kernel overwrites; it needs no knowledge of the kernel's effects. A run may also lose single hidden writes
(`WritePlace`) and keep all others.

After the first NaN no number proves anything. In the search for it, a constant that is all NaN does not count, nor do
operations that only move such a constant: JAX emits one with every lookup that may be out of range. An operation that
selects the NaN does count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.dataflow import is_custom_partitioning, is_shard_edge
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, find_user_line
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.model.findings import Attribution, OutputNumbers
from ligerdiag.model.jobs import WritePlace
from ligerdiag.replay.ops.dtypes import get_dimensions, get_dtype, have_same_bits
from ligerdiag.replay.ops.evaluate import HloEvaluator, choose_branch, is_true
from ligerdiag.replay.ops.products import multiply
from ligerdiag.replay.ops.scope import (
    Array,
    Cell,
    Cells,
    Multiply,
    NotCoveredError,
    OnValue,
    Spread,
    Value,
    copy_cells,
    count_devices,
    list_cells,
    nest_cells,
    pick_cells,
    read_cells,
    spread_cells,
    store,
)
from ligerdiag.replay.runs.collectives import COLLECTIVES, exchange
from ligerdiag.replay.runs.shards import join, split

_MOVES = having(Trait.NO_NEW_NAN)


class ValueWatch(Protocol):
    """Interface of an observer of a run. The run passes each value to the observer as soon as it has computed it. The
    observer may change the value.
    """

    def before(self, operands: Iterable[Cells]) -> None: ...

    def after(self, instruction: HloInstruction, values: Sequence[Cells]) -> None:
        """Receives the values of an operation, right after the run has computed it.

        values: the result, then the operands. The operation may have overwritten the contents of the operands.
        """
        ...


@dataclass(slots=True, eq=False)
class NanWatch:
    """Finds the instruction that computes the first NaN of a run, and stores it in `first`."""

    first: HloInstruction | None = None
    _is_given: bool = field(default=False)

    def before(self, operands: Iterable[Cells]) -> None:
        """Notes whether the operands of the next operation already contain a NaN."""
        self._is_given = self.first is None and any(_is_partly_nan(array) for array in _list_arrays(operands))

    def after(self, instruction: HloInstruction, values: Sequence[Cells]) -> None:
        """Stores the operation in `first` if it made the first NaN of the run. The NaN may be in its result, or in an
        operand that it overwrote.
        """
        if self.first is None and not self._is_given and instruction.opcode not in _MOVES:
            arrays = _list_arrays(values)
            self.first = instruction if any(map(_has_nan, arrays)) else None


def needs_explanation(numbers: Mapping[str, OutputNumbers], intended: Mapping[str, Array]) -> bool:
    """Returns whether an output is undecided because it contains a NaN in program order.

    intended: the outputs of program order by name.
    """
    return any(one.attribution is Attribution.UNDECIDED and _has_nan(intended[name]) for name, one in numbers.items())


def describe_first_nan(
    module: HloModule, first: HloInstruction | None, inputs: Mapping[str, Array], *, is_unwritten: bool = False
) -> str:
    """Names the origin of the first NaN in one line. The origin is the operation that made the NaN, or an argument that
    contains one.

    first: the operation, or None if it is unknown. inputs: the arguments by name. is_unwritten: whether the operation
    is a kernel that reads unwritten bytes of its outputs, or leaves elements unwritten.
    """
    argument = next((name for name, array in inputs.items() if _has_nan(array)), None)
    if argument is not None:
        return f"argument `{argument}` holds a NaN: give it other values, or a `Draw`"
    if first is None:
        return "the program as written computes a NaN: give its arguments other values, or a `Draw`"
    line = find_user_line(module, first)
    place = "" if line is None else f" at {line.file}:{line.line}"
    operation = f"`%{first.name}` ({first.opcode})"
    if is_unwritten:
        kernel = "its kernel reads an output before writing it, or leaves elements of one unwritten (LD025, LD013)"
        why = "the memory is read before anything is written there (LD025)" if _allocates(first) else kernel
        return f"the program as written takes its first NaN from unwritten memory, in {operation}{place}: {why}"
    return (
        f"the program as written makes its first NaN in {operation}{place}: give its arguments other values, or a "
        "`Draw`"
    )


def _allocates(instruction: HloInstruction) -> bool:
    return is_call_with(instruction, CallTrait.ALLOCATES)


def _list_arrays(values: Iterable[Cells]) -> list[Array]:
    return [np.asarray(cell.array) for value in values for cell in list_cells(value)]


def _is_nan(array: Array) -> Array | None:
    if array.dtype.kind in "biu" or not array.size:
        return None
    return np.isnan(array.astype(np.complex64 if array.dtype.kind == "c" else np.float32))


def _has_nan(array: Array) -> bool:
    found = _is_nan(array)
    return found is not None and bool(found.any())


def _is_partly_nan(array: Array) -> bool:
    """Returns whether some, but not all, elements are NaN. An array that is all NaN is a placeholder that JAX emits."""
    found = _is_nan(array)
    return found is not None and bool(found.any()) and not bool(found.all())


type _Form = tuple[int, tuple[int, ...]]
"""Element type and dimensions of an array."""

_BARRIERS = having(Trait.BARRIER)
_TOGETHER = having(Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT, Trait.CONTROL_FLOW, Trait.BARRIER)
"""Opcodes of instructions that run once for all devices together, even inside of a shard_map."""


class Kernels(Protocol):
    """Interface of an object that runs kernels, such as `kernels.KernelRunner`."""

    def runs(self, instruction: HloInstruction) -> bool:
        """Returns whether the instruction is a call of a kernel that this object runs."""
        ...

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """Runs the kernel of a custom call on flat arrays, which the kernel may overwrite.

        watched: whether to record observations of the launch under the call's name.
        """
        ...


def is_launched(instruction: HloInstruction, kernels: Kernels) -> bool:
    """Returns whether the instruction calls a kernel or allocates memory. An allocation counts as a launch without
    programs.
    """
    return kernels.runs(instruction) or is_call_with(instruction, CallTrait.ALLOCATES)


def run_program(
    module: HloModule,
    arguments: Sequence[Array],
    kernels: Kernels,
    *,
    isolated: bool = False,
    lost: frozenset[WritePlace] = frozenset(),
    devices: int = 1,
    watch: ValueWatch | None = None,
    most: Mapping[int, int] | None = None,
    multiply: Multiply = multiply,
    on_value: OnValue | None = None,
) -> tuple[Array, ...]:
    """Runs the program as written and returns its outputs as whole arrays: the leaves of the entry's root, in order.
    Raises NotCoveredError if replay does not cover an operation.

    arguments: whole arrays, by parameter number. isolated: whether kernels leave their operands unchanged. lost: hidden
    writes that kernels leave out even if `isolated` is false. devices: number of devices inside of a shard_map. watch: gets
    each value when it has been computed. most: maps the id of a loop to the most iterations that it runs. multiply: computes
    the products. on_value: gets the result of each instruction; it gets the values inside of a call, a loop or a branch
    before that of the instruction itself.
    """
    run = _Run(module, kernels, isolated, devices, watch, most or {}, multiply, on_value=on_value, lost=lost)
    return run.start(arguments)


def run_intended_and_stale(
    module: HloModule,
    arguments: Sequence[Array],
    kernels: Kernels,
    *,
    devices: int,
    most: Mapping[int, int],
    multiply: Multiply,
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Runs the program in program order twice and returns the outputs of both runs. In the second run, kernels leave
    their operands unchanged.

    If no kernel overwrites an operand, the program runs once, and both are the same arrays.
    """
    run = _Run(module, kernels, False, devices, None, most, multiply)
    intended = run.start(arguments)
    if not run.overwrote:
        return intended, intended
    return intended, _Run(module, kernels, True, devices, None, most, multiply).start(arguments)


@dataclass(slots=True, eq=False)
class _Run:
    module: HloModule
    kernels: Kernels
    isolated: bool
    devices: int
    watch: ValueWatch | None = None
    most: Mapping[int, int] = field(default_factory=dict[int, int])
    multiply: Multiply = multiply
    on_value: OnValue | None = None
    lost: frozenset[WritePlace] = frozenset()
    overwrote: bool = False
    """Whether a kernel has overwritten an operand that no declared output aliases."""
    _callers: tuple[int, ...] = ()
    """Ids of the instructions that lead from the entry computation to the one that runs now."""
    _evaluator: HloEvaluator = field(init=False)
    _overwritable: frozenset[_Form] = field(init=False)
    """Element types and dimensions of the kernels' operands. Inside of a shard_map a value with one of these gets a cell
    for each device, because a kernel may overwrite it.
    """
    _inside: bool = False
    """Whether the run is inside of a shard_map."""

    def __post_init__(self) -> None:
        self._evaluator = HloEvaluator(self.module, multiply=self.multiply)
        self._overwritable = frozenset(
            _read_form(operand)
            for _, call in self.module.iterate_custom_calls()
            for operand in call.operands
            if self.kernels.runs(call)
        )

    def start(self, arguments: Sequence[Array]) -> tuple[Array, ...]:
        """Runs the entry computation and returns its outputs as whole arrays, see `run_program`."""
        root = self.run(self.module.entry, [Cell(argument) for argument in arguments])
        return tuple([cell.array for cell in list_cells(root)])

    def run(self, computation: HloComputation, arguments: Sequence[Cells]) -> Cells:
        """Runs a computation once and returns the cells of its result. Each cell is dropped after its last read."""
        around, self._inside = self._inside, self._inside or any(map(count_devices, arguments))
        try:
            return self._run(computation, arguments)
        finally:
            self._inside = around

    def _run_called(self, caller: HloInstruction, computation: HloComputation, arguments: Sequence[Cells]) -> Cells:
        around, self._callers = self._callers, (*self._callers, caller.id)
        try:
            return self.run(computation, arguments)
        finally:
            self._callers = around

    def _run(self, computation: HloComputation, arguments: Sequence[Cells]) -> Cells:
        left = dict(self._evaluator.count_uses(computation))
        values: dict[int, Cells] = {}
        for instruction in self.module.sort_in_program_order(computation):
            found = values[instruction.id] = self._run_instruction(instruction, values, arguments)
            if self.on_value is not None:
                for device in range(max(1, count_devices(found))):
                    self.on_value(instruction, read_cells(pick_cells(found, device)), device)
            for operand in instruction.operands:
                left[operand.id] -= 1
                if not left[operand.id]:
                    del values[operand.id]
            if not left.get(instruction.id):
                del values[instruction.id]
        return values[computation.root.id]

    def _run_instruction(
        self,
        instruction: HloInstruction,
        values: Mapping[int, Cells],
        arguments: Sequence[Cells],
    ) -> Cells:
        operands = [values[operand.id] for operand in instruction.operands]
        called = [self.module.computations[c] for c in instruction.called_computations]
        devices = max([count_devices(operand) for operand in operands], default=0)
        if is_shard_edge(instruction) or (devices and instruction.opcode not in _TOGETHER):
            return self._run_on_devices(instruction, operands, devices)
        match instruction.opcode:
            case "parameter":
                return arguments[instruction.proto.parameter_number]
            case "tuple":
                return tuple(operands)
            case "get-tuple-element":
                whole = operands[0]
                if not isinstance(whole, tuple) or instruction.proto.tuple_index >= len(whole):
                    raise ArtifactError(
                        f"`{instruction.name}` reads an element of a tuple, but its operand has no such element"
                    )
                return whole[instruction.proto.tuple_index]
            case "call":
                return self._run_called(instruction, called[0], operands)
            case "custom-call" if called and is_custom_partitioning(instruction):
                if len(called[0].parameters) != len(operands):
                    raise ArtifactError(
                        f"`{instruction.name}` has {len(operands)} operands, but the computation that it calls has"
                        f" {len(called[0].parameters)} parameters"
                    )
                return self._run_called(instruction, called[0], operands)
            case "while":
                body, condition = called
                kept = body.kept_elements
                state = _copy_but(operands[0], kept)
                left = self.most.get(instruction.id, -1)
                while left and is_true(_read_for_all(self._run_called(instruction, condition, (state,)))):
                    state = _copy_but(self._run_called(instruction, body, (state,)), kept)
                    left -= 1
                return state
            case "conditional":
                branch = choose_branch(instruction, _read_for_all(operands[0]))
                return copy_cells(self._run_called(instruction, called[branch], (operands[1 + branch],)))
            case opcode if opcode in _BARRIERS:
                return copy_cells(operands[0])
            case "partition-id":
                return Spread(tuple([Cell(np.array(device, np.uint32)) for device in range(self.devices)]))
            case _:
                result = self._compute(instruction, operands, self._evaluator)
                if self._inside and isinstance(result, Cell) and _read_form(instruction) in self._overwritable:
                    return Spread(tuple([Cell(result.array) for _ in range(self.devices)]))  # a kernel may overwrite it
                return result

    def _compute(self, instruction: HloInstruction, operands: Sequence[Cells], evaluator: HloEvaluator) -> Cells:
        if self.watch is not None:
            self.watch.before(operands)
        if is_launched(instruction, self.kernels):
            result = self._launch(instruction, operands)
        else:
            read = tuple([read_cells(operand) for operand in operands])
            result = store(evaluator.evaluate(instruction, read))
        if self.watch is not None:
            self.watch.after(instruction, (result, *operands))
        return result

    def _run_on_devices(self, instruction: HloInstruction, operands: Sequence[Cells], devices: int) -> Cells:
        """Runs an instruction inside of a shard_map, or at its edge, on every device, and returns the cells of its
        result.
        """
        if is_call_with(instruction, CallTrait.ENTERS_SHARDS):
            return split(self.module, instruction, operands)
        if is_call_with(instruction, CallTrait.LEAVES_SHARDS):
            return join(self.module, instruction, operands)
        picked = [[pick_cells(operand, device) for operand in operands] for device in range(devices)]
        if instruction.opcode in COLLECTIVES:
            read = [tuple([read_cells(operand) for operand in one]) for one in picked]
            return spread_cells([store(value) for value in exchange(instruction, read, self._evaluator.call)])
        evaluators = [HloEvaluator(self.module, device, self.multiply) for device in range(devices)]
        results = [
            self._compute(instruction, one, evaluator) for one, evaluator in zip(picked, evaluators, strict=True)
        ]
        return spread_cells(results)

    def _launch(self, call: HloInstruction, operands: Sequence[Cells]) -> Cells:
        cells = [cell for operand in operands for cell in list_cells(operand)]
        if len(cells) != len(operands):
            raise ArtifactError(f"expected arrays as operands of the kernel call `{call.name}` but got a tuple")
        shared = {output: operand for operand, output in call.operand_output_aliases.items()}
        own: dict[int, Array] = {}
        """Maps the id of a cell to the buffer of its array: an array that is passed twice has one buffer."""
        buffers = [
            np.array(cell.array, order="C").reshape(-1)
            if number in shared.values()
            else own.setdefault(id(cell), np.array(cell.array, order="C").reshape(-1))
            for number, cell in enumerate(cells)
        ]
        shapes = list(iterate_leaf_shapes(call.shape))
        outputs: list[Array] = []
        for index, shape in shapes:
            operand = shared.get(index)
            outputs.append(buffers[operand] if operand is not None else _allocate(shape))
        self.kernels.launch(call, buffers, outputs, watched=False)
        for number, (cell, buffer) in enumerate(zip(cells, buffers, strict=True)):
            kept = self.isolated or ((*self._callers, call.id), number) in self.lost
            if number not in shared.values() and not kept and not _is_equal(cell.array, buffer):
                cell.overwrite(np.reshape(buffer, cell.array.shape))
                self.overwrote = True
        results = [
            Cell(output.reshape(get_dimensions(shape))) for output, (_, shape) in zip(outputs, shapes, strict=True)
        ]
        return nest_cells(call.shape, results)


def _read_form(instruction: HloInstruction) -> _Form:
    return instruction.shape.element_type, tuple(instruction.shape.dimensions)


def _copy_but(state: Cells, kept: frozenset[int]) -> Cells:
    """Returns a loop's state with the elements copied into new cells (each the storage of one array), except those
    whose numbers are in `kept`, which stay in their cells.
    """
    if not isinstance(state, tuple):
        return copy_cells(state)
    return tuple([child if number in kept else copy_cells(child) for number, child in enumerate(state)])


def _read_for_all(cells: Cells) -> Value:
    """Returns a value that controls a loop or branch. Raises NotCoveredError if devices have different values."""
    devices = count_devices(cells)
    if not devices:
        return read_cells(cells)
    values = [read_cells(pick_cells(cells, device)) for device in range(devices)]
    if any(not np.array_equal(np.asarray(value), np.asarray(values[0])) for value in values):
        raise NotCoveredError("a loop or branch in shard_map whose condition differs between devices")
    return values[0]


def _allocate(shape: ShapeProto) -> Array:
    """Returns a flat buffer with all bits set, which is NaN in every floating point dtype."""
    dtype, size = get_dtype(shape), int(np.prod(get_dimensions(shape), dtype=np.int64))
    return np.full(size * dtype.itemsize, 0xFF, np.uint8).view(dtype)


def _is_equal(array: Array, flat: Array) -> bool:
    """Returns whether an array and a flat buffer of its elements are equal bit for bit."""
    return have_same_bits(array.reshape(-1), flat)
