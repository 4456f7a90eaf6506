"""Whether a buffer assignment may be believed: it comes from a file, and bytes that are missing could be those that matter.

(1) The record itself: each logical buffer is assigned once, within one allocation, with its own size (`buffers`).
(2) Each leaf of an entry parameter stands in an allocation that is that parameter's, each constant in a constant's.
    Every position where a scheduled instruction defines a value has a slice, and the slice has the value's size. Tokens
    have no bytes; a size that cannot be computed (packed elements) is not compared.
(3) Positions that must share storage (see `must_alias`) have one slice.
(4) No value is read after others have overwritten its bytes. The schedule is walked once: a definition fills its slice and
    spoils all that overlap it, a read wants what it filled. A consumer may fill the bytes of the operand that it reads last.
    Each branch of a conditional starts from what there was before it.
What is not looked at is what a kernel overwrites behind XLA's back, which is the question and no fault.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.must_alias import build_must_alias_buffers
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.positions import Positions
from ligerdiag.hlo.shape import TOKEN, ShapeIndex, compute_byte_size, iterate_leaf_shapes

_PLACES_ONLY = having(Trait.LAUNCHES_NOTHING)
"""Opcodes that read and fill nothing when their turn comes."""
_INNER = having(Trait.RUNS_SCHEDULED)
_SPOILED = -1
_MOST_STEPS = 20
"""Times that the instructions of a module may be walked over, on average; XLA gives each computation a caller of its own."""


def find_buffer_fault(module: HloModule, buffers: BufferAssignment) -> str:
    """Returns why the assignment is not to be believed, in one clause; "" where it holds."""
    return buffers.fault or _Check(module, buffers).run()


class _Fault(Exception):
    """The first thing that is wrong."""


class _Check:
    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self._module = module
        self._buffers = buffers
        self._positions = Positions(module, buffers)
        self._shared = build_must_alias_buffers(module)
        self._shared_positions = Positions(module, self._shared)
        self._overlapping = _compute_overlaps(buffers)
        self._holds: dict[int, int] = {}
        """Slice number to the set of values that fills it, by its number in `_shared`."""
        self._steps = _MOST_STEPS * module.instruction_count

    def run(self) -> str:
        try:
            self._require_places()
            self._walk()
        except _Fault as fault:
            return str(fault)
        return ""

    def _require_places(self) -> None:
        """(2) and (3)."""
        self._require_parameters()
        slices: dict[int, int] = {}
        for computation in self._module.computations.values():
            for instruction in computation.instructions:
                defined = self._shared.definitions.get(instruction.id)
                if not defined:
                    continue
                shapes = dict(iterate_leaf_shapes(instruction.shape))
                for index, group in defined:
                    shape = shapes[index]
                    if shape.element_type == TOKEN:
                        continue
                    number = self._positions.find(instruction, index)
                    if number is None:
                        raise _Fault(f"`{instruction.name}`{_render(index)} has no place in it")
                    size = compute_byte_size(shape)
                    if size is not None and self._buffers.slices[number].size != size:
                        raise _Fault(
                            f"`{instruction.name}`{_render(index)} has {size} bytes and a place of"
                            f" {self._buffers.slices[number].size}"
                        )
                    if slices.setdefault(group, number) != number:
                        raise _Fault(f"`{instruction.name}`{_render(index)} does not share storage as it must")

    def _require_parameters(self) -> None:
        entry, slices = self._module.entry, self._buffers.slices
        own: set[int] = set()
        for parameter in entry.parameters:
            for index, shape in iterate_leaf_shapes(parameter.shape):
                number = self._positions.find(parameter, index)
                if number is None or shape.element_type == TOKEN:
                    continue
                own.add(slices[number].allocation)
                if self._buffers.parameters.get(slices[number].allocation) != (parameter.proto.parameter_number, index):
                    raise _Fault(f"`{parameter.name}`{_render(index)} does not stand where the caller puts it")
        if self._buffers.parameters.keys() - own:
            raise _Fault("an allocation is said to be a parameter's and is not")
        for computation in self._module.computations.values():
            for constant in computation.instructions:
                number = self._positions.find(constant, ()) if constant.opcode == "constant" else None
                if number is not None and slices[number].allocation not in self._buffers.constants:
                    raise _Fault(f"`{constant.name}` does not stand in a constant's allocation")

    def _walk(self) -> None:
        """(4)."""
        entry = self._module.entry
        for instruction in entry.parameters:
            self._fill(instruction)
        for constant in self._module.computations.values():
            for instruction in constant.instructions:
                if instruction.opcode == "constant":
                    self._fill(instruction)
        self._run(entry)
        self._read(entry.root, "the program's results")

    def _run(self, computation: HloComputation) -> None:
        self._steps -= len(computation.instructions)
        if self._steps < 0:
            raise _Fault("the module calls its computations in more ways than XLA leaves")
        for instruction in computation.sequence or computation.instructions:
            if instruction.opcode in _PLACES_ONLY:
                continue
            for operand in instruction.operands:
                self._read(operand, f"`{instruction.name}`")
            callees = [self._module.computations[number] for number in instruction.called_computations]
            if instruction.opcode == "conditional":
                self._run_branches(callees)
            elif instruction.opcode in _INNER:
                for callee in reversed(callees):  # a loop's condition comes first
                    self._run(callee)
            self._fill(instruction)

    def _run_branches(self, callees: Iterable[HloComputation]) -> None:
        before = dict(self._holds)
        ends: list[Mapping[int, int]] = []
        for callee in callees:
            self._holds = dict(before)
            self._run(callee)
            ends.append(self._holds)
        self._holds = {
            number: group if all(end.get(number, group) == group for end in ends) else _SPOILED
            for end in ends
            for number, group in end.items()
        }

    def _read(self, value: HloInstruction, reader: str) -> None:
        places = self._positions.locate(value)
        for number, group in zip(places, self._shared_positions.locate(value), strict=True):
            if number is not None and group is not None and self._holds.get(number, group) != group:
                raise _Fault(f"{reader} reads `{value.name}`, whose bytes are another value's by then")

    def _fill(self, instruction: HloInstruction) -> None:
        for index, group in self._shared.definitions.get(instruction.id, ()):
            number = self._positions.find(instruction, index)
            if number is None:
                continue
            for other in self._overlapping[number]:
                self._holds[other] = _SPOILED
            self._holds[number] = group


def _compute_overlaps(buffers: BufferAssignment) -> Mapping[int, list[int]]:
    """Slice number to the numbers of the others that share bytes with it."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    by_allocation: defaultdict[int, list[int]] = defaultdict(list)
    for number, one in enumerate(buffers.slices):
        if one.size:
            by_allocation[one.allocation].append(number)
    for numbers in by_allocation.values():
        numbers.sort(key=lambda number: buffers.slices[number].offset)
        for rank, number in enumerate(numbers):
            one = buffers.slices[number]
            for other in numbers[rank + 1 :]:
                if buffers.slices[other].offset >= one.offset + one.size:
                    break
                found[number].append(other)
                found[other].append(number)
    return found


def _render(index: ShapeIndex) -> str:
    return f"{{{','.join(map(str, index))}}}" if index else ""
