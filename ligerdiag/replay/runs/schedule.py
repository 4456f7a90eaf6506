"""Runs the schedule as the GPU does, on numbers: instruction by instruction, on the bytes of the buffer assignment.

Each BufferAllocation is one array of bytes, and each value a view of it, at the value's offset and in its layout. So
sharing, donation and updates in place need no special treatment: two values that XLA put into the same bytes are the same
bytes. Fresh memory has all bits set, which is NaN in every floating point dtype.

- All devices run in lockstep: each instruction runs on all of them before the next one.
- Instructions that only name a place (tuples, bitcasts, parameters, the -done of a pair) do nothing.
- A fusion reads all of its operands before it writes. A kernel runs on the bytes themselves, even inside of a fusion.
- An asynchronous pair does its work at its start.
- The parameters and results of a loop, branch or call are in the bytes of the caller's values; if the buffer assignment
  says otherwise for a loop, the module is refused.
- XLA gives a kernel inside of a fusion slices of larger arrays, or places for its results, without a copy. Only slices
  and other names lie between the fusion's operands and the kernel, so the kernel overwrites the operands' bytes. A
  kernel's output that is declared to be an operand is that operand only if both have the same bytes
  (`hlo.fused_aliases`). If they have different bytes, those of the output are unset until the kernel stores to them.

Not modelled: streams, command buffers, and concurrency between a start and its done.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.fused_aliases import find_broken_aliases
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import TOKEN, ShapeIndex, is_tuple, iterate_leaf_shapes, iterate_leaves
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.ops.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.ops.evaluate import HloEvaluator, choose_branch, is_true
from ligerdiag.replay.ops.products import multiply
from ligerdiag.replay.ops.scope import Array, Multiply, NotCoveredError, OnValue, Value
from ligerdiag.replay.runs.collectives import COLLECTIVES, exchange
from ligerdiag.replay.runs.program import Kernels, is_launched


def compute_sizes(buffers: BufferAssignment) -> Mapping[int, int]:
    """Returns the size of each BufferAllocation in bytes, up to the end of its last value: `{index: bytes}`."""
    sizes: dict[int, int] = {}
    for slice_ in buffers.slices:
        sizes[slice_.allocation] = max(sizes.get(slice_.allocation, 0), slice_.offset + slice_.size)
    return sizes


class DeviceMemory:
    """The memory of one device: an array of bytes for each BufferAllocation."""

    def __init__(self, buffers: BufferAssignment, positions: Positions) -> None:
        self._slices = buffers.slices
        self._positions = positions
        self._bytes = {index: np.full(size, 0xFF, np.uint8) for index, size in compute_sizes(buffers).items()}

    def locate(self, instruction: HloInstruction, index: ShapeIndex) -> Slice | None:
        """Returns the place of one array of the instruction's result: its allocation, offset and size. Returns None if
        the array has no place, like a token.
        """
        number = self._positions.find(instruction, index)
        return None if number is None else self._slices[number]

    def view(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns one array of the instruction's result in its logical shape, as a view of the device's bytes. Raises
        ArtifactError if the array has no place in memory.
        """
        slice_ = self.locate(instruction, index)
        if slice_ is None:
            raise ArtifactError(f"the buffer assignment has no place for `{instruction.name}`{list(index) or ''}")
        step = self._find_step(instruction, index, shape)
        return view_bytes(instruction, shape, self._bytes[slice_.allocation], slice_.offset, slice_.size, step)

    def _find_step(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> int:
        """Returns the bytes from one element of a leaf to the next one in memory."""
        return get_dtype(shape).itemsize

    def view_flat(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns the elements of one array of the instruction's result in memory order, as a view."""
        view = self.view(instruction, index, shape)
        slice_ = self.locate(instruction, index)
        assert slice_ is not None
        step = self._find_step(instruction, index, shape)
        return np.ndarray((view.size,), view.dtype, self._bytes[slice_.allocation], slice_.offset, (step,))

    def fetch(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Array:
        """Returns the current contents of one array of the instruction's result. See `view`."""
        return self.view(instruction, index, shape)

    @contextmanager
    def allow_writes(self, operands: Sequence[HloInstruction], result: HloInstruction | None = None) -> Generator[None]:
        """Encloses a call that may overwrite the bytes of its operands. The call writes `result` through a view of the
        bytes.
        """
        del operands, result
        yield

    def read(self, instruction: HloInstruction) -> Value:
        """Returns the current contents of the bytes of the instruction's result: views, not copies."""
        return self._read(instruction, (), instruction.shape)

    def _read(self, instruction: HloInstruction, index: ShapeIndex, shape: ShapeProto) -> Value:
        if is_tuple(shape):
            return tuple([self._read(instruction, (*index, n), child) for n, child in enumerate(shape.tuple_shapes)])
        if shape.element_type == TOKEN:
            return ()
        return self.fetch(instruction, index, shape)

    def write(self, instruction: HloInstruction, value: Value, index: ShapeIndex = ()) -> None:
        """Stores the value in the bytes of the instruction's result. With an index, stores it in the bytes of that
        element of the result.
        """
        shape = instruction.shape
        for child in index:
            shape = shape.tuple_shapes[child]
        leaves = self._pair(instruction, value, index, shape)
        if len(leaves) > 1:  # a view of one leaf's bytes must not change before it is read
            leaves = [(target, np.array(array)) for target, array in leaves]
        for target, array in leaves:
            np.copyto(target, array, casting="no")

    def _pair(
        self, instruction: HloInstruction, value: Value, index: ShapeIndex, shape: ShapeProto
    ) -> list[tuple[Array, Array]]:
        if is_tuple(shape):
            if not isinstance(value, tuple) or len(value) != len(shape.tuple_shapes):
                raise ArtifactError(
                    f"the value computed for `{instruction.name}` is not the tuple that its shape declares"
                )
            pairs: list[tuple[Array, Array]] = []
            for number, (child, part) in enumerate(zip(shape.tuple_shapes, value, strict=True)):
                pairs += self._pair(instruction, part, (*index, number), child)
            return pairs
        if shape.element_type == TOKEN:
            return []
        target = self.view(instruction, index, shape)
        if isinstance(value, tuple) or value.shape != target.shape or value.dtype != target.dtype:
            kind = "a tuple" if isinstance(value, tuple) else f"{value.dtype}{list(value.shape)}"
            raise NotCoveredError(
                f"`{instruction.name}` ({instruction.opcode}): replay computes {kind} instead of"
                f" {target.dtype}{list(target.shape)}"
            )
        return [(target, value)]


def view_bytes(  # noqa: PLR0917
    instruction: HloInstruction, shape: ShapeProto, bytes_: Array, offset: int, room: int, step: int = 0
) -> Array:
    """Returns bytes as an array of this shape, in the shape's layout. The array is a view and starts at `offset`.
    Raises ArtifactError if the array takes more than `room` bytes.

    step: bytes from one element to the next one in memory; 0 means the size of an element.
    """
    dtype, dimensions = get_dtype(shape), get_dimensions(shape)
    strides, size = [0] * len(dimensions), step or dtype.itemsize
    order = shape.layout.minor_to_major or range(len(dimensions) - 1, -1, -1)
    if len(order) != len(dimensions):
        raise ArtifactError(f"`{instruction.name}` has a layout whose rank differs from that of its shape")
    for dimension in order:
        strides[dimension] = size
        size *= dimensions[dimension]
    if size > room:
        raise ArtifactError(f"`{instruction.name}` needs {size} bytes, but the buffer assignment gives it {room}")
    return np.ndarray(dimensions, dtype, bytes_, offset, strides)


def calls_kernel(fused: HloComputation, kernels: Kernels) -> bool:
    return any(map(kernels.runs, fused.instructions))


def run_sliced(
    fused: HloComputation,
    operands: Sequence[Value],
    evaluator: HloEvaluator,
    kernels: Kernels,
    broken: Mapping[int, Collection[int]],
) -> Value:
    """Runs a fusion that contains kernels, and returns its result. The kernels run on slices of the fusion's operands,
    without copies, and may overwrite them. Raises NotCoveredError if replay does not cover an operation.

    broken: maps the id of a kernel call to the numbers of operands with a broken alias. Such an operand should share
    its bytes with an output of the call by declaration, but the output has other bytes.
    """
    values: dict[int, Value] = {}
    for one in fused.instructions:
        inputs = tuple([values[operand.id] for operand in one.operands])
        if one.opcode == "parameter":
            values[one.id] = operands[one.proto.parameter_number]
        elif kernels.runs(one):
            flat = [_flatten(one, value, operands) for value in inputs]
            values[one.id] = _launch(one, flat, kernels, broken.get(one.id, ()))
        else:
            values[one.id] = evaluator.evaluate(one, inputs)
        if evaluator.on_value is not None:
            evaluator.on_value(one, values[one.id], evaluator.partition)
    return values[fused.root.id]


def _launch(call: HloInstruction, operands: list[Array], kernels: Kernels, broken: Collection[int]) -> Value:
    shared = {output: operand for operand, output in call.operand_output_aliases.items() if operand not in broken}
    outputs: list[Array] = []
    for index, shape in iterate_leaf_shapes(call.shape):
        dimensions = get_dimensions(shape)
        if list(shape.layout.minor_to_major) != [*range(len(dimensions))][::-1]:
            raise NotCoveredError(
                f"`{call.name}`: a kernel inside of a fusion, with an output that is not in row-major layout"
            )
        dtype = get_dtype(shape)
        if index in shared:
            outputs.append(operands[shared[index]].reshape(dimensions))
        else:
            outputs.append(np.full((*dimensions, dtype.itemsize), 0xFF, np.uint8).view(dtype).reshape(dimensions))
    kernels.launch(call, operands, [output.reshape(-1) for output in outputs], watched=True)
    return tuple(outputs) if call.shape.tuple_shapes else outputs[0]


def _flatten(call: HloInstruction, value: Value, operands: Sequence[Value]) -> Array:
    """Returns `value`, a kernel's operand inside of a fusion, as a flat view in memory order.

    Raises NotCoveredError if its bytes are not a contiguous part of one of `operands`, the operands of the fusion.
    """
    if not isinstance(value, np.ndarray):
        raise NotCoveredError(f"`{call.name}`: a kernel inside of a fusion, with a tuple as operand")
    order = sorted(range(value.ndim), key=lambda axis: -value.strides[axis])
    ordered = value.transpose(order)
    whole = [one for one in operands if isinstance(one, np.ndarray) and np.may_share_memory(one, value)]
    if not whole or not is_contiguous(ordered, min(map(find_step, whole))):
        raise NotCoveredError(f"`{call.name}`: a kernel inside of a fusion, with an operand that is not contiguous")
    return ordered.reshape(-1)


def find_step(array: Array) -> int:
    """Returns the distance in bytes between neighbouring elements in memory. The array must have no gaps."""
    return min(
        [step for step, size in zip(array.strides, array.shape, strict=True) if size > 1], default=array.itemsize
    )


def is_contiguous(array: Array, step: int) -> bool:
    """Returns whether consecutive elements of the array, in row-major order, lie `step` bytes apart."""
    expected = step
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


_PLACES = having(Trait.LAUNCHES_NOTHING, Trait.HANDS_ON)
"""Opcodes of instructions that do nothing: they only name the place of an existing value."""


@dataclass(slots=True, eq=False)
class ScheduleRunner:
    """Runs an optimized module on the bytes of its buffer assignment. It can run several times on the same memory."""

    module: HloModule
    buffers: BufferAssignment
    kernels: Kernels
    devices: int = 1
    most: Mapping[int, int] = field(default_factory=dict[int, int])
    """Maps the id of a loop to the most iterations that it runs; other loops run to their end."""
    multiply: Multiply = multiply
    on_value: OnValue | None = None
    """Gets the result of each scheduled instruction, and of each instruction in a fusion without a collective."""
    _positions: Positions = field(init=False)
    _memories: list[DeviceMemory] = field(init=False)
    _evaluators: list[HloEvaluator] = field(init=False)
    _entered: set[int] = field(init=False, default_factory=set[int])
    _broken: dict[int, set[int]] = field(init=False, default_factory=dict[int, set[int]])
    """Maps the id of a kernel call inside of a fusion to the numbers of the operands whose declared alias is broken: an
    output of the call is declared to share the operand's bytes, but is in other bytes.
    """

    def __post_init__(self) -> None:
        self._positions = Positions(self.module, self.buffers)
        for alias in find_broken_aliases(self.module, self._positions):
            self._broken.setdefault(alias.call.id, set()).add(alias.operand)
        self._memories = [self._make_memory() for _ in range(self.devices)]
        self._evaluators = [
            HloEvaluator(self.module, device, self.multiply, self.on_value) for device in range(self.devices)
        ]
        for computation in self.module.computations.values():
            for instruction in computation.sequence:
                if instruction.opcode == "constant":
                    for device in range(self.devices):
                        self._store_constant(device, instruction)

    def _make_memory(self) -> DeviceMemory:
        return DeviceMemory(self.buffers, self._positions)

    def execute(self, arguments: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
        """Runs the entry computation. Returns, for each device, copies of the leaves of the root, in order. Raises
        NotCoveredError if replay does not cover an operation, and ArtifactError if the module and its buffer assignment
        do not match.

        arguments: for each device, its shards of the entry parameters, by parameter number.
        """
        entry = self.module.entry
        for memory, arrays in zip(self._memories, arguments, strict=True):
            for parameter, array in zip(entry.parameters, arrays, strict=True):
                memory.write(parameter, array)
        self._run(entry, range(self.devices))
        shapes = list(iterate_leaf_shapes(entry.root.shape))
        return [
            tuple([np.array(memory.fetch(entry.root, index, shape)) for index, shape in shapes])
            for memory in self._memories
        ]

    def read_parameter(self, device: int, number: int) -> Array:
        """Returns the current contents of an entry parameter on a device. number: the parameter's number."""
        parameter = self.module.entry.parameters[number]
        return self._memories[device].view(parameter, (), parameter.shape)

    def read_constants(self) -> list[Array]:
        """Returns copies of the current contents of all constants in memory, on the first device."""
        return [
            np.array(self._memories[0].view(instruction, (), instruction.shape))
            for computation in self.module.computations.values()
            for instruction in computation.sequence
            if instruction.opcode == "constant" and self._memories[0].locate(instruction, ()) is not None
        ]

    def list_unreached(self) -> tuple[str, ...]:
        """Returns the names of the instructions that the executions so far did not test. These are the instructions in
        branches and loops that no device entered. Instructions that only compute maxima are also among them, because a
        wrong maximum need not change the outputs.
        """
        return tuple(
            [
                instruction.name
                for number, computation in self.module.computations.items()
                for instruction in computation.sequence
                if number not in self._entered or self._finds_largest(instruction)
            ]
        )

    def _finds_largest(self, value: HloInstruction) -> bool:
        """Returns whether the instruction only computes maxima. A softmax subtracts such a maximum without changing its
        result, so a wrong one need not show in the outputs.
        """
        computations = self.module.computations
        if value.opcode == "fusion":
            root = computations[value.called_computations[0]].root
            return all(map(self._finds_largest, root.operands if root.opcode == "tuple" else (root,)))
        if value.opcode == "bitcast":
            return self._finds_largest(value.operands[0])
        return value.opcode == "reduce" and computations[value.called_computations[0]].root.opcode == "maximum"

    def _run(self, computation: HloComputation, active: Sequence[int]) -> None:
        if not computation.sequence:
            raise ArtifactError(f"the schedule has no instruction sequence for computation `{computation.name}`")
        self._entered.add(computation.id)
        for instruction in computation.sequence:
            self._execute(instruction, active)
            if self.on_value is not None:
                for device in active:
                    self.on_value(instruction, self._memories[device].read(instruction), device)

    def _execute(self, instruction: HloInstruction, active: Sequence[int]) -> None:
        opcode = instruction.opcode
        called = [self.module.computations[c] for c in instruction.called_computations]
        if opcode in _PLACES or (opcode.endswith("-done") and opcode.removesuffix("-done") in COLLECTIVES):
            return
        if opcode == "while":
            self._run_loop(instruction, called[0], called[1], active)
        elif opcode == "conditional":
            self._run_branches(instruction, called, active)
        elif opcode == "call" or (opcode == "async-start" and called[0].sequence):
            self._run(called[0], active)
        elif opcode in COLLECTIVES:
            self._exchange(instruction, active)
        elif opcode in ("fusion", "async-start") and any(i.opcode in COLLECTIVES for i in called[0].instructions):
            self._exchange_wrapped(instruction, called[0], active)
        elif is_launched(instruction, self.kernels):
            for device in active:
                self._launch(device, instruction)
        elif opcode == "fusion" and calls_kernel(called[0], self.kernels):
            for device, memory in enumerate(self._memories):
                if device in active:
                    with memory.allow_writes(instruction.operands):
                        operands = [memory.read(operand) for operand in instruction.operands]
                        value = run_sliced(called[0], operands, self._evaluators[device], self.kernels, self._broken)
                    memory.write(instruction, value)
        else:
            for device in active:
                self._compute(device, instruction)

    def _compute(self, device: int, instruction: HloInstruction) -> None:
        memory = self._memories[device]
        operands = tuple([memory.read(operand) for operand in instruction.operands])
        value = self._evaluators[device].evaluate(instruction, operands)
        if instruction.opcode == "async-start":
            memory.write(instruction, value, (1,))
        elif instruction.opcode == "copy-start":
            memory.write(instruction, value, (0,))
        else:
            memory.write(instruction, value)

    def _run_loop(
        self, loop: HloInstruction, body: HloComputation, condition: HloComputation, active: Sequence[int]
    ) -> None:
        self._require_same_places(loop, loop.operands[0], loop)
        for computation in (body, condition):
            self._require_same_places(loop, computation.parameters[0], loop)
        self._require_same_places(loop, body.root, loop)
        left = self.most.get(loop.id, -1)
        while left:
            self._run(condition, active)
            active = [device for device in active if is_true(self._memories[device].read(condition.root))]
            if not active:
                return
            self._run(body, active)
            left -= 1

    def _require_same_places(self, loop: HloInstruction, one: HloInstruction, two: HloInstruction) -> None:
        for index in iterate_leaves(loop.shape):
            places = self._memories[0].locate(one, index), self._memories[0].locate(two, index)
            if places[0] != places[1]:
                raise ArtifactError(
                    f"the buffer assignment puts element {list(index)} of the state of loop `{loop.name}` in two places"
                )

    def _run_branches(
        self, conditional: HloInstruction, branches: Sequence[HloComputation], active: Sequence[int]
    ) -> None:
        chosen = {
            device: choose_branch(conditional, self._memories[device].read(conditional.operands[0]))
            for device in active
        }
        for number, branch in enumerate(branches):
            taking = [device for device in active if chosen[device] == number]
            if not taking:
                continue
            self._run(branch, taking)
            for device in taking:
                self._memories[device].write(conditional, self._memories[device].read(branch.root))

    def _exchange(self, instruction: HloInstruction, active: Sequence[int]) -> None:
        if len(active) != self.devices:
            raise NotCoveredError(f"`{instruction.name}`: a {instruction.opcode} that only some devices run")
        operands = [tuple([memory.read(o) for o in instruction.operands]) for memory in self._memories]
        values = exchange(instruction, operands, self._evaluators[0].call)
        values = [_copy(value) for value in values]  # one device's result may be a view of another's bytes
        for memory, value in zip(self._memories, values, strict=True):
            if instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start":
                if not isinstance(value, tuple):
                    raise ArtifactError(f"the shape of `{instruction.name}` is not a tuple of an operand and a result")
                memory.write(instruction, value[1], (1,))
            else:
                memory.write(instruction, value)

    def _exchange_wrapped(self, caller: HloInstruction, wrapped: HloComputation, active: Sequence[int]) -> None:
        """Runs a fused or asynchronous computation that contains a collective, on all devices, and stores its result. The
        values inside of the computation have no place in memory.

        active: the devices that run the caller. Raises NotCoveredError if these are not all devices.
        """
        if len(active) != self.devices:
            raise NotCoveredError(f"`{caller.name}` with a collective that only some devices run")
        operands = [tuple([memory.read(o) for o in caller.operands]) for memory in self._memories]
        values: dict[int, list[Value]] = {}
        for instruction in wrapped.instructions:
            inputs = [tuple([values[o.id][device] for o in instruction.operands]) for device in range(self.devices)]
            if instruction.opcode == "parameter":
                found = [one[instruction.proto.parameter_number] for one in operands]
            elif instruction.opcode in COLLECTIVES:
                found = exchange(instruction, inputs, self._evaluators[0].call)
            else:
                found = [e.evaluate(instruction, one) for e, one in zip(self._evaluators, inputs, strict=True)]
            values[instruction.id] = found
        results = [_copy(value) for value in values[wrapped.root.id]]
        for memory, value in zip(self._memories, results, strict=True):
            memory.write(caller, value, (1,) if caller.opcode == "async-start" else ())

    def _launch(self, device: int, call: HloInstruction) -> None:
        memory = self._memories[device]
        operands = [memory.view_flat(operand, (), operand.shape) for operand in call.operands]
        outputs = [memory.view_flat(call, index, shape) for index, shape in iterate_leaf_shapes(call.shape)]
        with memory.allow_writes(call.operands, call):
            self.kernels.launch(call, operands, outputs, watched=True)

    def _store_constant(self, device: int, constant: HloInstruction) -> None:
        memory = self._memories[device]
        if any(memory.locate(constant, index) is not None for index in iterate_leaves(constant.shape)):
            memory.write(constant, self._evaluators[device].evaluate(constant, ()))


def _copy(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple([_copy(child) for child in value])
    return np.array(value)
