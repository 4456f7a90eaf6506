"""Adds facts that HLO text omits: the author's order of operations, and the buffer assignment, which XLA writes to a text of
its own.

HLO text does not record the order of independent operations: it lists them in the order in which a walk from the root needs
them. The protobuf of the module before optimizations has ids that increase in program order, and text has no ids. Only two
facts remain: an operation comes after its operands, and calls whose names differ only in the counter that XLA appends come
in the order of this counter. So the program is returned in the two orders that are furthest apart: every kernel call as
early as possible, and as late as possible. A result that is equal for both does not depend on the order; any other result is
unknown. If calls have several kinds of names, either kind may come first.

`parse_buffer_text` parses `…after_optimizations-buffer-assignment.txt`, for a dump without a protobuf, in the format of
BufferAssignment::ToString (xla/service/buffer_assignment.cc) and HloValue::ToShortString:

    allocation 0: size 8192[, page 0][, color 1][, parameter 1, shape |f32[16,128]| at ShapeIndex {0}][, output shape is |…|]
        [, constant][, thread-local][, maybe-live-out][, preallocated-temp]:
     value: <28 name{1,0} (phi) @0> (size=8192,offset=0): f32[16,128]{1,0}

Names have their ShapeIndex if the instruction's shape is a tuple. If a line within the allocations has another format,
the whole buffer assignment is unusable: the missing bytes could be those that a kernel overwrites.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment, parse_buffer_assignment
from ligerdiag.hlo.custom_calls import CallTrait, has_trait
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.xla_pb2 import (
    BufferAllocationProto,
    BufferAssignmentProto,
    HloComputationProto,
    HloInstructionProto,
    HloModuleProto,
)

_COUNTER = re.compile(r"(.*?)(?:\.(\d{1,18}))?")


def make_program_orders(module: HloModuleProto) -> tuple[HloModuleProto, ...]:
    """Returns copies of the module in the two orders of its operations that differ most. Kernel calls come as early as
    possible in one of them, and as late as possible in the other. If the calls have names of several kinds, either kind
    may come first, and there are four copies. A module without kernel calls is returned itself, as the only one.

    In each copy, instruction ids increase in program order, and computations come before their callers.
    """
    holders = _find_holders(module)
    calls = [i for computation in module.computations for i in computation.instructions if _is_kernel_call(i)]
    if not calls:
        return (module,)
    kinds = len({_split_name(call.name)[0] for call in calls})
    numberings: list[Callable[[HloComputationProto], list[int]]] = []
    for backward in (False, True) if kinds > 1 else (False,):
        for arrange in (_arrange_early, _arrange_late):

            def number(
                computation: HloComputationProto,
                backward: bool = backward,
                arrange: Callable[[HloComputationProto, Sequence[int]], list[int]] = arrange,
            ) -> list[int]:
                return arrange(computation, _sort_calls(computation, holders, backward=backward))

            numberings.append(number)
    return tuple(_renumber(module, number) for number in numberings)


def _is_kernel_call(instruction: HloInstructionProto) -> bool:
    return instruction.opcode == "custom-call" and not has_trait(instruction.custom_call_target, CallTrait.MARKER)


def _find_holders(module: HloModuleProto) -> frozenset[int]:
    """Returns the ids of the computations that hold a kernel call, directly or in a computation that they call."""
    found: set[int] = set()
    for computation in module.computations:
        if any(
            _is_kernel_call(instruction) or not found.isdisjoint(instruction.called_computation_ids)
            for instruction in computation.instructions
        ):
            found.add(computation.id)
    return frozenset(found)


def _split_name(name: str) -> tuple[str, int]:
    match = _COUNTER.fullmatch(name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def _sort_calls(computation: HloComputationProto, holders: frozenset[int], *, backward: bool) -> list[int]:
    """Returns the ids of the instructions that run a kernel, sorted by name without XLA's counter, then by counter.

    holders: ids of the computations that hold a kernel call. backward: whether the names, but not the counters, are in
    descending order.
    """
    calls = [
        i for i in computation.instructions if _is_kernel_call(i) or not holders.isdisjoint(i.called_computation_ids)
    ]
    kinds = sorted({_split_name(call.name)[0] for call in calls}, reverse=backward)
    calls.sort(key=lambda call: (kinds.index(_split_name(call.name)[0]), _split_name(call.name)[1]))
    return [call.id for call in calls]


def _arrange_early(computation: HloComputationProto, calls: Sequence[int]) -> list[int]:
    """Returns an order with each call right after the operations it needs, call by call; then the rest."""
    needs = {i.id: (*i.operand_ids, *i.control_predecessor_ids) for i in computation.instructions}
    return _emit(needs, (*calls, *needs))


def _arrange_late(computation: HloComputationProto, calls: Sequence[int]) -> list[int]:
    """Returns an order with each call as late as possible, the last call first; then the rest before them."""
    needed_by: dict[int, list[int]] = {i.id: [] for i in computation.instructions}
    for instruction in computation.instructions:
        for operand in (*instruction.operand_ids, *instruction.control_predecessor_ids):
            needed_by.setdefault(operand, []).append(instruction.id)
    return _emit(needed_by, (*reversed(calls), *reversed(needed_by)))[::-1]


def _emit(needs: "dict[int, tuple[int, ...]] | dict[int, list[int]]", wanted: Iterable[int]) -> list[int]:
    """Returns the wanted ids, each once, after everything that it needs. Members of a cycle come in some order."""
    order: list[int] = []
    entered: set[int] = set()
    for target in wanted:
        stack = [(target, iter(needs.get(target, ())))] if target not in entered else []
        entered.add(target)
        while stack:
            current, rest = stack[-1]
            following = next((i for i in rest if i not in entered and i in needs), None)
            if following is None:
                order.append(current)
                stack.pop()
            else:
                entered.add(following)
                stack.append((following, iter(needs[following])))
    return order


def _renumber(module: HloModuleProto, number: Callable[[HloComputationProto], list[int]]) -> HloModuleProto:
    """Returns a copy of the module whose instruction ids increase, computation by computation, in the given order."""
    out = HloModuleProto()
    out.CopyFrom(module)
    for computation in out.computations:
        order = number(computation)
        new = dict(zip(order, sorted(order), strict=True))
        for instruction in computation.instructions:
            instruction.id = new.get(instruction.id, instruction.id)
            for ids in (instruction.operand_ids, instruction.control_predecessor_ids):
                ids[:] = [new.get(i, i) for i in ids]
        computation.root_id = new.get(computation.root_id, computation.root_id)
    return out


HEADING = "BufferAssignment:"

_ALLOCATION = re.compile(
    r"allocation (?P<index>\d{1,18}): size (?P<size>\d{1,18})(?:, page \d+)?(?:, color \d+)?"
    r"(?:, parameter (?P<parameter>\d{1,9}), shape \|[^|]*\| at ShapeIndex \{(?P<place>[\d,]*)\})?"
    r"(?:, output shape is \|[^|]*\|)?(?P<flags>(?:, [a-z-]+)*):"
)
_VALUE = re.compile(
    r" value: <(?P<id>\d{1,18}) (?P<name>[^\s{}<>]+)(?:\{(?P<place>[\d,]*)\})?(?: \(phi\))?(?: @\d+)?> "
    r"\(size=(?P<size>\d{1,18}),offset=(?P<offset>\d{1,18})\): .+"
)
_DEFINING = having(Trait.HAS_BUFFER)
"""Opcodes of instructions that always define a value of their own."""
_FLAGS = frozenset({"constant", "thread-local", "maybe-live-out", "preallocated-temp"})


def parse_buffer_text(text: str, module: HloModule) -> BufferAssignment:
    """Parses the buffer assignment of the module. Raises ArtifactError if the text has another format, or belongs to
    another module.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != HEADING:
        raise ArtifactError(f"expected `{HEADING}` as the first line but got `{lines[0]:.60}`")
    proto = BufferAssignmentProto()
    allocation: BufferAllocationProto | None = None
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            break
        value = _VALUE.fullmatch(line)
        if value is not None and allocation is not None:
            _add_value(proto, allocation, value, number)
            continue
        heading = _ALLOCATION.fullmatch(line)
        if heading is None:
            raise ArtifactError(f"line {number} of the buffer assignment is not in a known format: `{line:.60}`")
        allocation = _add_allocation(proto, heading, number)
    else:
        raise ArtifactError("the buffer assignment is cut off")
    _require_all_values(proto, module)
    buffers = parse_buffer_assignment(proto, module)
    _require_all_definitions(buffers, module)
    return buffers


def _add_allocation(proto: BufferAssignmentProto, heading: re.Match[str], number: int) -> BufferAllocationProto:
    if int(heading["index"]) != len(proto.buffer_allocations):
        expected = len(proto.buffer_allocations)
        raise ArtifactError(
            f"line {number} of the buffer assignment: expected allocation {expected} next but got allocation"
            f" {heading['index']}"
        )
    flags = frozenset(heading["flags"].split(", ")[1:])
    if flags - _FLAGS:
        raise ArtifactError(f"line {number} of the buffer assignment: unknown word `{min(flags - _FLAGS):.40}`")
    return proto.buffer_allocations.add(
        index=int(heading["index"]),
        size=int(heading["size"]),
        is_thread_local="thread-local" in flags,
        is_constant="constant" in flags,
        maybe_live_out="maybe-live-out" in flags,
        is_entry_computation_parameter=heading["parameter"] is not None,
        parameter_number=int(heading["parameter"] or 0),
        parameter_shape_index=_parse_place(heading["place"]),
    )


def _add_value(
    proto: BufferAssignmentProto, allocation: BufferAllocationProto, value: re.Match[str], number: int
) -> None:
    size, offset = int(value["size"]), int(value["offset"])
    if offset + size > allocation.size:
        raise ArtifactError(f"line {number} of the buffer assignment: `{value['name']}` extends beyond its allocation")
    allocation.assigned.add(logical_buffer_id=int(value["id"]), offset=offset, size=size)
    buffer = proto.logical_buffers.add(id=int(value["id"]), size=size)
    buffer.defined_at.instruction_name = value["name"]
    buffer.defined_at.shape_index.extend(_parse_place(value["place"]))


def _parse_place(text: str | None) -> list[int]:
    return [int(part) for part in (text or "").split(",") if part]


def _require_all_values(proto: BufferAssignmentProto, module: HloModule) -> None:
    """Raises ArtifactError if the assignment names an instruction that the module does not have, which means that the
    text belongs to another compilation.
    """
    names = {i.name for computation in module.computations.values() for i in computation.instructions}
    for buffer in proto.logical_buffers:
        if buffer.defined_at.instruction_name not in names:
            raise ArtifactError(
                f"the buffer assignment names `{buffer.defined_at.instruction_name}`, which is not in `{module.name}`"
            )


def _require_all_definitions(buffers: BufferAssignment, module: HloModule) -> None:
    """Raises ArtifactError if the assignment has no place for an executed instruction, which means that the text was
    cut off between two lines.
    """
    for computation in module.computations.values():
        for instruction in computation.sequence:
            is_argument = instruction.opcode == "parameter" and computation is module.entry
            if (is_argument or instruction.opcode in _DEFINING) and instruction.id not in buffers.definitions:
                raise ArtifactError(f"the buffer assignment has no place for `{instruction.name}`")
