"""Makes large modules of small real ones: copies of a compiled program, one after the other.

Each block is the whole program with its own names, ids and tags; its parameters are those outputs of the block before
that have the same shape. Values have the same bytes in every block, as XLA reuses memory.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto, HloProto

_TAG = re.compile(r"#ld(\d+)")
_OTHER = ("rng-bit-generator", "", b"")
_TAGS = 1 << 14
"""More than any block has."""


@dataclass(frozen=True, slots=True)
class _Block:
    """One block, and the offset of its ids from those of the source."""

    number: int
    computations: int
    """The distance between computation ids of consecutive blocks."""
    instructions: int
    """The distance between instruction ids of consecutive blocks."""

    def computation(self, source: int) -> int:
        return source + self.number * self.computations

    def instruction(self, source: int) -> int:
        return source + self.number * self.instructions


def repeat_module(source: HloProto, blocks: int, *, every_kernel: bool) -> HloProto:
    """Returns the module `blocks` times; with every_kernel=False only the first block keeps its custom calls.

    source: a module whose entry computation has a tuple as root.
    """
    out = HloProto()
    module, target = source.hlo_module, out.hlo_module
    target.CopyFrom(module)
    del target.computations[:]
    target.schedule.Clear()
    entry = next(c for c in module.computations if c.id == module.entry_computation_id)
    width = max(c.id for c in module.computations) + 1
    stride = max(i.id for c in module.computations for i in c.instructions) + 1
    new_entry = HloComputationProto(name=entry.name, id=width * blocks, is_fusion_computation=False)
    order: list[int] = []
    results: dict[int, int] = {}
    for block in (_Block(number, width, stride) for number in range(blocks)):
        for computation in module.computations:
            if computation.id != entry.id:
                _add_computation(target, module, computation, block)
                if block.number and not every_kernel:
                    _replace_calls(target.computations[-1].instructions)
        root = _add_block(new_entry, entry, block, results)
        if block.number and not every_kernel:
            _replace_calls(new_entry.instructions[-len(entry.instructions) :])
        sequence = module.schedule.sequences[entry.id].instruction_ids if module.schedule.sequences else ()
        dropped = {i.id for i in entry.instructions if i.opcode == "parameter"} if block.number else set[int]()
        order += [block.instruction(i) for i in sequence if i not in dropped]
        results = _match_results(entry, root)
        if block.number < blocks - 1:
            _drop_root(new_entry, order)
    new_entry.root_id = new_entry.instructions[-1].id
    target.computations.append(new_entry)
    target.entry_computation_id = new_entry.id
    if module.schedule.sequences:
        target.schedule.sequences[new_entry.id].instruction_ids.extend(order)
    if source.HasField("buffer_assignment"):
        _repeat_buffers(source, out, blocks, stride)
    return out


def _add_computation(
    target: HloModuleProto, module: HloModuleProto, computation: HloComputationProto, block: _Block
) -> None:
    clone = target.computations.add()
    clone.CopyFrom(computation)
    clone.name, clone.id = f"{computation.name}.b{block.number}", block.computation(computation.id)
    clone.root_id = block.instruction(computation.root_id)
    for instruction in clone.instructions:
        _shift(instruction, block)
    if computation.id in module.schedule.sequences:
        ids = module.schedule.sequences[computation.id].instruction_ids
        target.schedule.sequences[clone.id].instruction_ids.extend(block.instruction(i) for i in ids)


def _shift(instruction: HloInstructionProto, block: _Block) -> None:
    instruction.name = f"{instruction.name}.b{block.number}"
    instruction.id = block.instruction(instruction.id)
    for field in (instruction.operand_ids, instruction.control_predecessor_ids):
        field[:] = [block.instruction(i) for i in field]
    instruction.called_computation_ids[:] = [block.computation(i) for i in instruction.called_computation_ids]
    op_name = instruction.metadata.op_name
    if "#ld" in op_name:
        shifted = _TAG.sub(lambda tag: f"#ld{int(tag[1]) + block.number * _TAGS}", op_name)
        instruction.metadata.op_name = shifted


def _replace_calls(instructions: Iterable[HloInstructionProto]) -> None:
    """Replaces the surplus kernels of a block by other instructions of the same shape."""
    for instruction in instructions:
        if instruction.opcode == "custom-call":
            instruction.opcode, instruction.custom_call_target, instruction.backend_config = _OTHER


def _add_block(
    new_entry: HloComputationProto, entry: HloComputationProto, block: _Block, results: dict[int, int]
) -> HloInstructionProto:
    """Adds the entry's instructions; a parameter of a later block becomes the matching result, or the first block's
    parameter."""
    stand_ins: dict[int, int] = {}
    root = entry.instructions[0]
    for instruction in entry.instructions:
        if instruction.opcode == "parameter" and block.number:
            stand_ins[block.instruction(instruction.id)] = results.get(instruction.parameter_number, instruction.id)
            continue
        clone = new_entry.instructions.add()
        clone.CopyFrom(instruction)
        _shift(clone, block)
        clone.operand_ids[:] = [stand_ins.get(i, i) for i in clone.operand_ids]
        if instruction.id == entry.root_id:
            root = clone
    return root


def _match_results(entry: HloComputationProto, root: HloInstructionProto) -> dict[int, int]:
    """Returns parameter number to the instruction of this block that replaces it in the next one."""
    free = list(zip(root.shape.tuple_shapes, root.operand_ids, strict=True))
    found: dict[int, int] = {}
    for parameter in (i for i in entry.instructions if i.opcode == "parameter"):
        for position, (shape, operand) in enumerate(free):
            if (shape.element_type, *shape.dimensions) == (parameter.shape.element_type, *parameter.shape.dimensions):
                found[parameter.parameter_number] = operand
                del free[position]
                break
    return found


def _drop_root(entry: HloComputationProto, order: list[int]) -> None:
    root = entry.instructions.pop()
    if root.id in order[-1:]:
        order.pop()


def _repeat_buffers(source: HloProto, out: HloProto, blocks: int, stride: int) -> None:
    known = {i.id for c in out.hlo_module.computations for i in c.instructions}
    assignment = source.buffer_assignment
    by_id = {buffer.id: buffer for buffer in assignment.logical_buffers}
    step = max(by_id) + 1
    for allocation in assignment.buffer_allocations:
        clone = out.buffer_assignment.buffer_allocations.add()
        clone.CopyFrom(allocation)
        del clone.assigned[:]
        for block in range(blocks):
            for assigned in allocation.assigned:
                place = by_id[assigned.logical_buffer_id].defined_at
                if place.instruction_id + block * stride not in known:
                    continue
                number = assigned.logical_buffer_id + block * step
                clone.assigned.add(logical_buffer_id=number, offset=assigned.offset, size=assigned.size)
                buffer = out.buffer_assignment.logical_buffers.add(id=number, size=assigned.size)
                buffer.defined_at.instruction_id = place.instruction_id + block * stride
                buffer.defined_at.shape_index.extend(place.shape_index)
