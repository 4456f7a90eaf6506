"""Runs the schedule in other orders that XLA may choose (`hlo.legal_orders`), with separate bytes for each value.

XLA knows every value that an instruction defines, and gives each order a buffer assignment that preserves these values.
So in another order, instructions share bytes only where they are names of one value, as a bitcast and its operand are
(`hlo.shared_storage`). A kernel that overwrites an operand, unknown to XLA, overwrites the bytes of that value, under all
of its names. Copies stay copies.

- An operand that is declared to be an output of the kernel is copied first, as XLA does if somebody still reads the
  operand. If the declared alias is broken in the schedule (`hlo.fused_aliases`), the kernel overwrites the operand.
- An update in place makes a new value.
- In a loop's state, an element that the body returns unchanged, in its own place, is the value that the loop started
  from. The other elements are copied before the first iteration; each later iteration gets the results of the one
  before.
- A result of a conditional that all branches return as one value is that value. Any other result is a copy of the value
  that the branch returned.
- The start of an asynchronous pair does its work where it is scheduled, or at its done, as the order says. Nothing runs
  concurrently.

All orders compute each instruction in the same way, from arrays of the same layout and alignment. So roundings agree,
and results differ only if some read comes before a kernel in one order and after it in another. An output counts as
changed if it moves by more than 2^-20 of its norm, whatever its dtype, so one stale term of a large sum in bf16 shows,
too. A smaller change may come from a library's product that sums in another order.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import override

import numpy as np

from ligerdiag.effects.call import carries_kernel
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import map_same_arrays
from ligerdiag.hlo.dataflow import find_start, look_through
from ligerdiag.hlo.legal_orders import LegalOrder, draw_orders
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import TOKEN, ShapeIndex, compute_byte_size, iterate_leaf_shapes, iterate_leaves
from ligerdiag.hlo.shared_storage import SharedStorage
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.model.findings import OrderChange, OrderNumbers
from ligerdiag.replay.ops.evaluate import choose_branch, is_true
from ligerdiag.replay.ops.scope import Array, NotCoveredError, Value
from ligerdiag.replay.runs.attribution import compute_error, rank_error
from ligerdiag.replay.runs.program import Kernels
from ligerdiag.replay.runs.schedule import DeviceMemory, ScheduleRunner, calls_kernel, run_sliced, view_bytes

type Leaves = Mapping[ShapeIndex, Array]
"""The bytes of one value: maps the index of each leaf in the value's shape to the bytes of that leaf."""
_ALIGNMENT = 64


class OwnStorage(DeviceMemory):
    """Memory of one device in which every value has bytes of its own. Instructions that are names of one value, such as
    a bitcast and its operand, share its bytes.
    """

    def __init__(self) -> None:
        self._leaves: dict[int, dict[ShapeIndex, Array]] = {}

    def clear(self) -> None:
        """Forgets all values."""
        self._leaves.clear()

    def take(self, instruction: HloInstruction) -> Leaves:
        """Returns the bytes of the instruction's value, by the index of each array in the tuple. Raises ArtifactError
        if the instruction has no value yet.
        """
        found = self._leaves.get(instruction.id)
        if found is None:
            raise ArtifactError(f"`{instruction.name}` is read before it has a value")
        return found

    def give(self, instruction: HloInstruction, leaves: Leaves) -> None:
        """Makes these bytes the value of the instruction, without copying them."""
        self._leaves[instruction.id] = dict(leaves)

    def name(self, instruction: HloInstruction, index: ShapeIndex, bytes_: Array) -> None:
        """Makes these bytes one leaf of the instruction's value, without copying them. A leaf is an array in the
        value's tuple.
        """
        self._leaves.setdefault(instruction.id, {})[index] = bytes_

    def find(self, instruction: HloInstruction, index: ShapeIndex) -> Array | None:
        """Returns the bytes of one leaf of the instruction's value. Returns None for a leaf without bytes, such as a
        token.
        """
        return self._leaves.get(instruction.id, {}).get(index)

    def define(self, instruction: HloInstruction) -> None:
        """Gives each leaf of the instruction's value new bytes, and sets all their bits."""
        shapes = iterate_leaf_shapes(instruction.shape)
        self._leaves[instruction.id] = {
            index: allocate(shape) for index, shape in shapes if shape.element_type != TOKEN
        }

    def drop(self, number: int) -> None:
        """Forgets the value of the instruction with this id."""
        self._leaves.pop(number, None)

    @override
    def view(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns one array of the instruction's value in its logical shape, as a view of its bytes. Raises
        ArtifactError if the array has no bytes yet.
        """
        found = self.find(instruction, index)
        if found is None:
            raise ArtifactError(f"`{instruction.name}`{list(index) or ''} is read before it has a value")
        return view_bytes(instruction, shape, found, 0, found.nbytes)

    @override
    def view_flat(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns the elements of one array of the instruction's value in memory order, as a view. Raises ArtifactError
        if the array has no bytes yet.
        """
        view = self.view(instruction, index, shape)
        found = self.find(instruction, index)
        assert found is not None
        return np.ndarray((view.size,), view.dtype, found, 0)

    @override
    def write(self, instruction: HloInstruction, value: Value, index: ShapeIndex = ()) -> None:
        """Stores the value in new bytes as the instruction's result. With an index, stores it as that element of the
        result.
        """
        for leaf, shape in iterate_leaf_shapes(instruction.shape):
            if leaf[: len(index)] == index and shape.element_type != TOKEN:
                self.name(instruction, leaf, allocate(shape))
        DeviceMemory.write(self, instruction, value, index)


def allocate(shape: ShapeProto) -> Array:
    """Returns new bytes for one array of this shape, all bits set. Raises NotCoveredError for element types smaller
    than a byte.

    The bytes begin at an address that is a multiple of 64, so that a library that computes in blocks always rounds the
    same way.
    """
    size = compute_byte_size(shape)
    if size is None:
        raise NotCoveredError("values of unknown size in bytes")
    whole = np.full(size + _ALIGNMENT, 0xFF, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    return whole[start : start + size]


def copy_bytes(bytes_: Array) -> Array:
    """Returns a copy of the bytes, at an address that is a multiple of 64."""
    whole = np.empty(bytes_.nbytes + _ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    found = whole[start : start + bytes_.nbytes]
    found[...] = bytes_
    return found


_NAMES = having(Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT, Trait.FORWARDS, Trait.UPDATE)
_DONES, _STARTS = having(Trait.DONE), having(Trait.START)
_RUNS_COMPUTATION = having(Trait.STARTS_COMPUTATION)
_SLICES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT) | {"slice", "dynamic-slice"}
_NOTHING = having(Trait.LAUNCHES_NOTHING) - _NAMES


@dataclass(slots=True, eq=False)
class OrderRunner(ScheduleRunner):
    """Runs an optimized module in any of its legal orders, with separate bytes for each value."""

    order: LegalOrder = field(default_factory=lambda: LegalOrder(name="as scheduled", sequences={}))
    _storages: list[OwnStorage] = field(init=False)
    _shared: SharedStorage = field(init=False)
    _lasting: frozenset[int] = field(init=False)
    """Ids of constants, whose values live as long as the program is loaded."""
    _dying: dict[int, list[list[int]]] = field(init=False, default_factory=dict[int, list[list[int]]])
    """Maps the id of a computation to a list that has, for each instruction of its sequence, the ids of the values that
    nothing reads after it.
    """
    _names: dict[int, list[tuple[tuple[int, ...], HloInstruction, tuple[int, ...]]]] = field(
        init=False, default_factory=dict[int, list[tuple[tuple[int, ...], HloInstruction, tuple[int, ...]]]]
    )

    def __post_init__(self) -> None:
        self._storages = []
        self._shared = SharedStorage(self.module, map_same_arrays(self.buffers, self.module))
        self._lasting = frozenset(
            one.id for home in self.module.computations.values() for one in home.sequence if one.opcode == "constant"
        )
        ScheduleRunner.__post_init__(self)

    @override
    def _make_memory(self) -> OwnStorage:
        self._storages.append(OwnStorage())
        return self._storages[-1]

    @override
    def execute(self, arguments: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
        """Runs the entry computation on fresh memory, in the order that the field `order` holds. Returns the outputs of
        each device. See `ScheduleRunner.execute`.
        """
        self._dying.clear()
        for storage in self._storages:
            storage.clear()
        for home in self.module.computations.values():
            for one in home.sequence:
                if one.opcode == "constant":
                    for device in range(self.devices):
                        self._store_constant(device, one)
        return ScheduleRunner.execute(self, arguments)

    @override
    def _store_constant(self, device: int, constant: HloInstruction) -> None:
        self._storages[device].write(constant, self._evaluators[device].evaluate(constant, ()))

    @override
    def _run(self, computation: HloComputation, active: Sequence[int]) -> None:
        if not computation.sequence:
            raise ArtifactError(f"the schedule has no instruction sequence for computation `{computation.name}`")
        self._entered.add(computation.id)
        if computation is self.module.entry:
            for parameter in computation.parameters:
                if parameter.id in self._shared.same_arrays:
                    self._name(parameter, active)
        sequence = self.order.sequences.get(computation.id, computation.sequence)
        if computation.id not in self._dying:
            self._dying[computation.id] = self._find_dying(computation, sequence)
        for instruction, dying in zip(sequence, self._dying[computation.id], strict=True):
            self._execute(instruction, active)
            for number in dying:
                for device in active:
                    self._storages[device].drop(number)

    def _find_dying(self, computation: HloComputation, sequence: Sequence[HloInstruction]) -> list[list[int]]:
        last: dict[int, int] = {}
        for at, one in enumerate(sequence):
            last[one.id] = at
            for operand in one.operands:
                last[operand.id] = at
            if one.opcode in _DONES:  # the start may do its work only here
                start = find_start(self.module, one)
                for number in (start.id, *[operand.id for operand in start.operands]):
                    if number in last:
                        last[number] = at
        kept = self._lasting | {computation.root.id}
        if computation is self.module.entry:
            kept |= {parameter.id for parameter in computation.parameters}
        dying: list[list[int]] = [[] for _ in sequence]
        for number, at in last.items():
            if number not in kept:
                dying[at].append(number)
        return dying

    @override
    def _execute(self, instruction: HloInstruction, active: Sequence[int]) -> None:
        opcode = instruction.opcode
        if opcode in _NOTHING:
            return
        if opcode in _NAMES:
            self._name(instruction, active)
        elif opcode in _STARTS:
            if instruction.id not in self.order.late:
                self._start(instruction, active)
        elif opcode in _DONES:
            start = find_start(self.module, instruction)
            if start.id in self.order.late:
                self._start(start, active)
                self._end(instruction, start, active)
            else:
                self._name(instruction, active)
        elif opcode == "call":
            self._enter(instruction, self.module.computations[instruction.called_computations[0]], active)
            self._name(instruction, active)
        elif opcode == "fusion" and calls_kernel(
            self.module.computations[instruction.called_computations[0]], self.kernels
        ):
            self._run_kernel_fusion(instruction, active)
        else:
            ScheduleRunner._execute(self, instruction, active)

    def _end(self, done: HloInstruction, start: HloInstruction, active: Sequence[int]) -> None:
        """Gives the -done of an asynchronous pair the value that the -start has just computed, even if other
        instructions lie between the two. active: the devices that run the pair.
        """
        for index in iterate_leaves(done.shape):
            source, place = done, index
            while source is not start:
                source, place = next(self._shared.list_named(source, place))
            for device in active:
                found = self._storages[device].find(start, place)
                if found is not None:
                    self._storages[device].name(done, index, found)

    def _start(self, start: HloInstruction, active: Sequence[int]) -> None:
        called = [self.module.computations[number] for number in start.called_computations]
        if start.opcode in _RUNS_COMPUTATION and called[0].sequence:
            self._enter(start, called[0], active)
        else:
            ScheduleRunner._execute(self, start, active)
        self._name(start, active)

    def _name(self, instruction: HloInstruction, active: Sequence[int]) -> None:
        """Gives an instruction that only names other values, such as a tuple, the bytes of these values. active: the
        devices that run it.
        """
        if instruction.id not in self._names:
            self._names[instruction.id] = [
                (index, source, place)
                for index in iterate_leaves(instruction.shape)
                for source, place in list(self._shared.list_named(instruction, index))[:1]
            ]
        for device in active:
            storage = self._storages[device]
            for index, source, place in self._names[instruction.id]:
                found = storage.find(source, place)
                if found is not None:
                    storage.name(instruction, index, found)

    def _enter(self, caller: HloInstruction, callee: HloComputation, active: Sequence[int]) -> None:
        """Runs a computation whose parameters are the caller's operands. active: the devices that run it."""
        for device in active:
            for parameter, operand in zip(callee.parameters, caller.operands, strict=True):
                self._storages[device].give(parameter, self._storages[device].take(operand))
        self._run(callee, active)

    @override
    def _run_loop(
        self, loop: HloInstruction, body: HloComputation, condition: HloComputation, active: Sequence[int]
    ) -> None:
        states = {device: self._begin_loop(loop, self._storages[device]) for device in active}
        running, left = list(active), self.most.get(loop.id, -1)
        while left:
            for device in running:
                self._storages[device].give(condition.parameters[0], states[device])
            self._run(condition, running)
            running = [device for device in running if is_true(self._storages[device].read(condition.root))]
            if not running:
                break
            for device in running:
                self._storages[device].give(body.parameters[0], states[device])
            self._run(body, running)
            for device in running:
                states[device] = self._storages[device].take(body.root)
            left -= 1
        for device in active:
            self._storages[device].give(loop, states[device])

    def _begin_loop(self, loop: HloInstruction, storage: OwnStorage) -> Leaves:
        """Returns the loop's state before the first iteration, with copies of the elements that the loop may change."""
        given = storage.take(loop.operands[0])
        return {
            index: bytes_ if self._shared.is_loop_invariant(loop, index) else copy_bytes(bytes_)
            for index, bytes_ in given.items()
        }

    @override
    def _run_branches(
        self, conditional: HloInstruction, branches: Sequence[HloComputation], active: Sequence[int]
    ) -> None:
        chosen = {
            device: choose_branch(conditional, self._storages[device].read(conditional.operands[0]))
            for device in active
        }
        for number, branch in enumerate(branches):
            taking = [device for device in active if chosen[device] == number]
            for device in taking:
                storage = self._storages[device]
                storage.give(branch.parameters[0], storage.take(conditional.operands[1 + number]))
            if taking:
                self._run(branch, taking)
            for device in taking:
                self._storages[device].give(conditional, self._end_branch(conditional, branch, self._storages[device]))

    def _end_branch(self, conditional: HloInstruction, branch: HloComputation, storage: OwnStorage) -> Leaves:
        """Returns the bytes of each leaf of the conditional's result after `branch` has run: the branch's own bytes if
        all branches return the leaf as one value, otherwise a copy.
        """
        return {
            index: bytes_ if any(self._shared.list_named(conditional, index)) else copy_bytes(bytes_)
            for index, bytes_ in storage.take(branch.root).items()
        }

    def _run_kernel_fusion(self, fusion: HloInstruction, active: Sequence[int]) -> None:
        fused = self.module.computations[fusion.called_computations[0]]
        copied = _find_declared(fused, self.kernels, self._broken)
        for device in active:
            storage = self._storages[device]
            operands = [storage.read(operand) for operand in fusion.operands]
            for number in copied:
                leaf = storage.find(fusion.operands[number], ())
                if leaf is not None:
                    spare = OwnStorage()
                    spare.name(fusion.operands[number], (), copy_bytes(leaf))
                    operands[number] = spare.read(fusion.operands[number])
            storage.write(fusion, run_sliced(fused, operands, self._evaluators[device], self.kernels, self._broken))

    @override
    def _launch(self, device: int, call: HloInstruction) -> None:
        storage = self._storages[device]
        storage.define(call)
        operands = [storage.view_flat(operand, (), operand.shape) for operand in call.operands]
        for number, index in call.operand_output_aliases.items():  # copied first, as XLA does
            found = storage.find(call.operands[number], ())
            if found is not None:
                storage.name(call, index, copy_bytes(found))
        shapes = [(index, shape) for index, shape in iterate_leaf_shapes(call.shape) if shape.element_type != TOKEN]
        outputs = {index: storage.view_flat(call, index, shape) for index, shape in shapes}
        for number, index in call.operand_output_aliases.items():
            operands[number] = outputs[index]
        self.kernels.launch(call, operands, list(outputs.values()), watched=False)


def _find_declared(fused: HloComputation, kernels: Kernels, broken: Mapping[int, Collection[int]]) -> frozenset[int]:
    """Returns the numbers of the fusion's operands that its kernels overwrite through a declared alias that the
    schedule keeps.

    broken: maps the id of a kernel call to the numbers of its operands whose declared alias the schedule breaks.
    """
    found: set[int] = set()
    for call in filter(kernels.runs, fused.instructions):
        for number in call.operand_output_aliases.keys() - set(broken.get(call.id, ())):
            value = look_through(call.operands[number], _SLICES)
            if value.opcode == "parameter":
                found.add(value.proto.parameter_number)
    return frozenset(found)


def list_kernels(module: HloModule) -> tuple[int, ...]:
    """Returns the ids of the module's kernel calls."""
    return tuple([one.id for _, one in module.iterate_custom_calls() if carries_kernel(one.proto.custom_call_target)])


SAME = 2.0**-20
"""The largest relative error between an output's values in two orders that still counts as no change."""
type Execute = Callable[[OrderRunner], Mapping[str, Sequence[Array]]]
"""A function that runs the module and returns the distinct copies of every output by name, see `case_run.run_schedule`.
"""


def try_orders(runner: OrderRunner, execute: Execute, count: int, seconds: float = inf) -> OrderNumbers:
    """Runs the module as scheduled and in `count` other orders, and returns the outputs that change. Raises
    NotCoveredError if replay does not cover an operation.

    seconds: time after which no new order begins.
    """
    started = perf_counter()
    kernels = list_kernels(runner.module)
    if not kernels:
        return OrderNumbers()
    usual = {name: list(map(np.array, copies)) for name, copies in execute(runner).items()}
    changed: dict[str, OrderChange] = {}
    seen: set[int] = set()
    left_out = 0
    for order in draw_orders(runner.module, kernels, count):
        if left_out or perf_counter() - started > seconds:
            left_out += 1
            continue
        key = hash((tuple(tuple(one.id for one in some) for some in order.sequences.values()), order.late))
        if key in seen:
            continue
        seen.add(key)
        runner.order = order
        for name, copies in execute(runner).items():
            found = max(map(_compute_change, copies, usual[name]), key=rank_error)
            if rank_error(found) > max(SAME, rank_error(changed[name].error) if name in changed else 0.0):
                changed[name] = OrderChange(order=order.name, error=found)
    return OrderNumbers(tried=len(seen), changed=changed, left_out=left_out)


def _compute_change(copy: Array, usual: Array) -> float:
    """Returns the relative error of a copy of an output compared with `usual`, the output of the schedule's own order;
    0 if both have the same bits, even those of a NaN.
    """
    return 0.0 if copy.tobytes() == usual.tobytes() else compute_error(copy, usual)
