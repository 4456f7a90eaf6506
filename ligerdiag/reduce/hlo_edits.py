"""Makes smaller modules from a dumped module: with fewer outputs, with fewer instructions, with fewer parameters.

The edits change XLA's own protobuf, not text, so that the remaining instructions keep their ids, layouts, positions in the
schedule and bytes. Every function returns new modules, or None if the edit does not apply.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ligerdiag.dumps.same_program import find_place, list_places
from ligerdiag.hlo.custom_calls import CallTrait, has_trait
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto, HloProto, ShapeProto

_KERNELS = CallTrait.CARRIES_TRITON | CallTrait.MOSAIC | CallTrait.UNREAD_MOSAIC
_FIXED = having(Trait.START) | having(Trait.DONE) | having(Trait.HAS_EFFECTS) | having(Trait.TOKEN)
"""Opcodes of instructions that no other instruction can replace."""
_RUNS_OTHERS = having(Trait.CONTROL_FLOW) | {"custom-call"} | _FIXED
"""Opcodes of instructions that may write something besides their result."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DumpedModules:
    """The modules of one compilation. They are never changed in place."""

    optimized: HloProto
    """The schedule, with the buffer assignment if the dump has it."""
    program: HloProto | None = None
    """The module before optimizations."""

    @property
    def protos(self) -> tuple[HloProto, ...]:
        return (self.optimized,) if self.program is None else (self.optimized, self.program)

    def copy(self) -> "DumpedModules":
        """Returns a copy of the modules, which an edit may change."""
        return DumpedModules(
            optimized=_copy(self.optimized), program=None if self.program is None else _copy(self.program)
        )


def _copy(proto: HloProto) -> HloProto:
    new = HloProto()
    new.CopyFrom(proto)
    return new


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class ModuleSize:
    """Figures that say how large the modules are, such as the number of instructions."""

    instructions: int
    """Number of instructions in the schedule's entry computation."""
    parameters: int
    outputs: int
    computations: int
    program: int
    """Number of instructions in the program's entry computation; 0 without a program."""

    def __str__(self) -> str:
        program = f", {self.program} instructions before optimizations" if self.program else ""
        return f"{self.instructions} instructions, {self.parameters} parameters, {self.outputs} outputs{program}"


def measure(modules: DumpedModules) -> ModuleSize:
    """Returns the size of the modules."""
    module = modules.optimized.hlo_module
    return ModuleSize(
        instructions=len(find_entry(module).instructions),
        parameters=sum(one.opcode == "parameter" for one in find_entry(module).instructions),
        outputs=count_outputs(modules),
        computations=len(module.computations),
        program=len(find_entry(modules.program.hlo_module).instructions) if modules.program else 0,
    )


def find_entry(module: HloModuleProto) -> HloComputationProto:
    """Returns the entry computation."""
    found = [one for one in module.computations if one.id == module.entry_computation_id]
    return found[0] if found else module.computations[-1]


def _find_root(module: HloModuleProto) -> HloInstructionProto:
    entry = find_entry(module)
    return next(one for one in entry.instructions if one.id == entry.root_id)


def count_outputs(modules: DumpedModules) -> int:
    """Returns the number of outputs that can be removed one by one; 1 if the module does not return a tuple."""
    roots = [_find_root(one.hlo_module) for one in modules.protos]
    counts = {len(one.operand_ids) if one.opcode == "tuple" else 1 for one in roots}
    return counts.pop() if len(counts) == 1 else 1


def keep_outputs(modules: DumpedModules, kept: Collection[int]) -> DumpedModules | None:
    """Returns the modules with only these outputs, and without the instructions that only the other outputs need."""
    new = modules.copy()
    numbers = sorted(kept)
    for proto in new.protos:
        module = proto.hlo_module
        root = _find_root(module)
        if root.opcode != "tuple" or not numbers:
            return None
        operands = [root.operand_ids[number] for number in numbers]
        shapes = [_clone(root.shape.tuple_shapes[number]) for number in numbers]
        root.DiscardUnknownFields()  # such as its sharding, which has a part for each output
        del root.operand_ids[:]
        root.operand_ids.extend(operands)
        entry = find_entry(module)
        for shape in (root.shape, entry.program_shape.result, module.host_program_shape.result):
            layouts = {number: _clone(one) for number, one in enumerate(shape.tuple_shapes)}
            left = [layouts.get(number, shapes[place]) for place, number in enumerate(numbers)]
            del shape.tuple_shapes[:]
            shape.tuple_shapes.extend(left)
        module.ClearField("spmd_output_sharding")
        _renumber_aliases(module, numbers)
    return prune(new)


def _clone(shape: ShapeProto) -> ShapeProto:
    new = ShapeProto()
    new.CopyFrom(shape)
    return new


def _renumber_aliases(module: HloModuleProto, kept: Sequence[int]) -> None:
    places = {number: place for place, number in enumerate(kept)}
    entries = module.input_output_alias.entries
    for number in reversed(range(len(entries))):
        index = entries[number].output_shape_index
        if index and index[0] in places:
            index[0] = places[index[0]]
        else:
            del entries[number]


def prune(modules: DumpedModules, *, drop: Callable[[HloInstructionProto], bool] | None = None) -> DumpedModules:
    """Returns the modules without the instructions whose results are not used, and without computations that are not called.

    drop: returns whether to remove a custom call whose results are unused. By default all custom calls stay, because they
    may write to memory.
    """
    new = modules.copy()
    for proto in new.protos:
        module = proto.hlo_module
        entry = find_entry(module)
        by_id = {one.id: one for one in entry.instructions}
        todo = [entry.root_id]
        for one in entry.instructions:
            is_call = one.opcode in _RUNS_OTHERS and not one.custom_call_has_side_effect
            if one.opcode == "parameter" or (one.opcode in _RUNS_OTHERS and not (is_call and drop and drop(one))):
                todo.append(one.id)
        live: set[int] = set()
        while todo:
            number = todo.pop()
            if number in by_id and number not in live:
                live.add(number)
                todo += [*by_id[number].operand_ids, *by_id[number].control_predecessor_ids]
        _keep_instructions(proto, entry, live)
        _drop_computations(proto)
    return new


def _keep_instructions(proto: HloProto, computation: HloComputationProto, live: Collection[int]) -> None:
    gone = {one.id for one in computation.instructions if one.id not in live}
    names = {one.name for one in computation.instructions if one.id in gone}
    if not gone:
        return
    for number in reversed(range(len(computation.instructions))):
        if computation.instructions[number].id in gone:
            del computation.instructions[number]
    for one in computation.instructions:
        _filter(one.control_predecessor_ids, gone)
    if computation.id in proto.hlo_module.schedule.sequences:
        _filter(proto.hlo_module.schedule.sequences[computation.id].instruction_ids, gone)
    _drop_buffers(proto, gone, names)


def _filter(ids: "list[int] | object", gone: Collection[int]) -> None:
    numbers: list[int] = list(ids)  # pyright: ignore
    if any(one in gone for one in numbers):
        del ids[:]  # pyright: ignore
        ids.extend(one for one in numbers if one not in gone)  # pyright: ignore


def _drop_buffers(proto: HloProto, gone: Collection[int], names: Collection[str]) -> None:
    """Forgets the bytes of values that are gone. The allocations stay, with their sizes."""
    assignment = proto.buffer_assignment
    lost = {
        one.id
        for one in assignment.logical_buffers
        if (
            one.defined_at.instruction_id in gone
            if one.defined_at.instruction_id
            else one.defined_at.instruction_name in names
        )
    }
    for number in reversed(range(len(assignment.logical_buffers))):
        if assignment.logical_buffers[number].id in lost:
            del assignment.logical_buffers[number]
    for number in reversed(range(len(assignment.buffer_aliases))):
        alias = assignment.buffer_aliases[number]
        place = alias.location
        is_gone = place.instruction_id in gone if place.instruction_id else place.instruction_name in names
        if is_gone or alias.source_buffer_id in lost:
            del assignment.buffer_aliases[number]
    for allocation in assignment.buffer_allocations:
        for number in reversed(range(len(allocation.assigned))):
            if allocation.assigned[number].logical_buffer_id in lost:
                del allocation.assigned[number]


def _drop_computations(proto: HloProto) -> None:
    """Drops the computations that nobody calls any more."""
    module = proto.hlo_module
    by_id = {one.id: one for one in module.computations}
    live: set[int] = set()
    todo = [find_entry(module).id]
    while todo:
        number = todo.pop()
        if number in by_id and number not in live:
            live.add(number)
            todo += [called for one in by_id[number].instructions for called in one.called_computation_ids]
    for number in reversed(range(len(module.computations))):
        computation = module.computations[number]
        if computation.id not in live:
            ids, names = {one.id for one in computation.instructions}, {one.name for one in computation.instructions}
            _drop_buffers(proto, ids, names)
            if computation.id in module.schedule.sequences:
                del module.schedule.sequences[computation.id]
            del module.computations[number]


def drop_unread_calls(modules: DumpedModules) -> Iterator[DumpedModules]:
    """Yields smaller modules without custom calls whose results are never read: first without all such calls, then only
    without those that are not kernels.
    """
    yield prune(modules, drop=lambda call: True)
    yield prune(modules, drop=lambda call: not has_trait(call.custom_call_target, _KERNELS))


def drop_parameters(modules: DumpedModules) -> DumpedModules | None:
    """Returns the modules without the parameters that no module reads, aliases or donates."""
    unread = _list_unread(modules.optimized.hlo_module)
    if modules.program is not None:
        unread &= _list_unread(modules.program.hlo_module)
    if not unread:
        return None
    new = modules.copy()
    for proto in new.protos:
        module = proto.hlo_module
        entry = find_entry(module)
        gone = {one.id for one in entry.instructions if one.opcode == "parameter" and one.parameter_number in unread}
        _keep_instructions(proto, entry, {one.id for one in entry.instructions} - gone)
        count = len(entry.program_shape.parameters)
        places = {number: place for place, number in enumerate(n for n in range(count) if n not in unread)}
        for one in entry.instructions:
            if one.opcode == "parameter":
                one.parameter_number = places[one.parameter_number]
        lists = (
            entry.program_shape.parameters,
            entry.program_shape.parameter_names,
            module.host_program_shape.parameters,
            module.host_program_shape.parameter_names,
            module.spmd_parameters_shardings,
        )
        for values in lists:
            for number in sorted(unread, reverse=True):
                if len(values) == count - sum(one > number for one in unread):
                    del values[number]
        for one in (*module.input_output_alias.entries, *module.buffer_donor.entries):
            one.parameter_number = places[one.parameter_number]
        for number in reversed(range(len(proto.buffer_assignment.buffer_allocations))):
            allocation = proto.buffer_assignment.buffer_allocations[number]
            if not allocation.is_entry_computation_parameter:
                continue
            if allocation.parameter_number in unread and not allocation.assigned:
                allocation.is_entry_computation_parameter = False
                allocation.parameter_number = 0
            else:
                allocation.parameter_number = places.get(allocation.parameter_number, 0)
    return new


def _list_unread(module: HloModuleProto) -> set[int]:
    entry = find_entry(module)
    read = {number for one in entry.instructions for number in (*one.operand_ids, *one.control_predecessor_ids)}
    bound = {one.parameter_number for one in (*module.input_output_alias.entries, *module.buffer_donor.entries)}
    return {
        one.parameter_number
        for one in entry.instructions
        if one.opcode == "parameter" and one.id not in read and one.id != entry.root_id
    } - bound


def list_removable(modules: DumpedModules) -> tuple[int, ...]:
    """Returns the ids of the instructions that `remove_instructions` can replace, in the order of the schedule. Returns ()
    if the dump has the program, too, because a schedule that alone is changed would contradict the program.

    The list does not contain instructions that are operands of kernels: if an argument of the module replaced such an
    operand, the kernel would cause another hazard.
    """
    if modules.program is not None:
        return ()
    entry = find_entry(modules.optimized.hlo_module)
    kept = {entry.root_id}
    for one in entry.instructions:
        if one.opcode == "custom-call" and has_trait(one.custom_call_target, _KERNELS):
            kept.update((one.id, *one.operand_ids))
    return tuple(
        one.id
        for one in entry.instructions
        if one.id not in kept and one.opcode != "parameter" and one.opcode not in _FIXED
    )


def remove_instructions(modules: DumpedModules, ids: Collection[int], *, by_operand: bool) -> DumpedModules | None:
    """Returns the modules without these instructions of the schedule's entry computation.

    by_operand: whether to replace each result by an operand of the same shape. Otherwise a new parameter replaces it, with
    the name, the position in the schedule and the bytes of the instruction.
    """
    new = modules.copy()
    module = new.optimized.hlo_module
    entry = find_entry(module)
    by_id = {one.id: one for one in entry.instructions}
    values: dict[int, int] = {}
    for one in entry.instructions:
        if one.id not in ids:
            continue
        like = [number for number in one.operand_ids if by_id[number].shape == one.shape] if by_operand else []
        if like:
            values[one.id] = like[0]
        elif not by_operand:
            _make_parameter(module, entry, one)
        else:
            return None
    for one in entry.instructions:
        operands = [_follow(number, values) for number in one.operand_ids]
        del one.operand_ids[:]
        one.operand_ids.extend(operands)
    return prune(new)


def _follow(number: int, values: dict[int, int]) -> int:
    while number in values:
        number = values[number]
    return number


def _make_parameter(module: HloModuleProto, entry: HloComputationProto, instruction: HloInstructionProto) -> None:
    new = HloInstructionProto(name=instruction.name, opcode="parameter", id=instruction.id)
    new.shape.CopyFrom(instruction.shape)
    new.metadata.CopyFrom(instruction.metadata)
    new.parameter_number = len(entry.program_shape.parameters)
    for shape in (entry.program_shape, module.host_program_shape):
        shape.parameters.append(instruction.shape)
        shape.parameter_names.append(instruction.name)
    del module.spmd_parameters_shardings[:]
    instruction.CopyFrom(new)


def forget_removed_places(modules: DumpedModules) -> DumpedModules:
    """Returns the modules; in them no instruction of the schedule names a line of the source that no operation of the
    program has, because a module with such a line is of another program.
    """
    if modules.program is None:
        return modules
    new = modules.copy()
    assert new.program is not None
    frames = new.optimized.hlo_module.stack_frame_index
    known = list_places(
        new.program.hlo_module.stack_frame_index, [one.metadata for one in _list_instructions(new.program)]
    )
    for one in _list_instructions(new.optimized):
        place = find_place(frames, one.metadata)
        if known and place is not None and place not in known:
            one.metadata.stack_frame_id = one.metadata.source_line = 0
            one.metadata.source_file = ""
    return new


def _list_instructions(proto: HloProto) -> list[HloInstructionProto]:
    return [one for computation in proto.hlo_module.computations for one in computation.instructions]
