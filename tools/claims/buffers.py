"""Mutates the buffer assignment: a place is lost, or differs from the real one."""

from random import Random

from ligerdiag.hlo.xla_pb2 import BufferAllocationProto, BufferAssignmentProto
from tools.claims.mutation import Claim, mutation
from tools.claims.pairs import Pair, choose_some

_SIZES = (0, 1, -1, -(1 << 40), 1 << 62)


def _list_assigned(pair: Pair) -> list[BufferAllocationProto.Assigned]:
    return [one for allocation in _get(pair).buffer_allocations for one in allocation.assigned]


def _get(pair: Pair) -> BufferAssignmentProto:
    return pair.optimized.buffer_assignment


@mutation(Claim.NOT_BETTER)
def drop_assignment(pair: Pair, random: Random) -> bool:
    """Removes the whole assignment: less is known, and nothing gets better."""
    del random
    pair.optimized.ClearField("buffer_assignment")
    return True


@mutation(Claim.NOT_FRESH, weight=6)
def unassign_values(pair: Pair, random: Random) -> bool:
    """Removes the places of some values."""
    buffers = _get(pair)
    chosen = {buffer.id for buffer in choose_some(random, list(buffers.logical_buffers))}
    for allocation in buffers.buffer_allocations:
        kept = [one for one in allocation.assigned if one.logical_buffer_id not in chosen]
        del allocation.assigned[:]
        allocation.assigned.extend(kept)
    if random.random() < 0.5:  # no trace of them is left
        logical = [one for one in buffers.logical_buffers if one.id not in chosen]
        del buffers.logical_buffers[:]
        buffers.logical_buffers.extend(logical)
    return True


@mutation(Claim.NOT_FRESH, weight=3)
def drop_allocation(pair: Pair, random: Random) -> bool:
    """Removes the places of all values of one allocation, or of all."""
    buffers = _get(pair)
    numbers = range(len(buffers.buffer_allocations))
    for number in sorted(choose_some(random, list(numbers)), reverse=True):
        gone = {one.logical_buffer_id for one in buffers.buffer_allocations[number].assigned}
        del buffers.buffer_allocations[number]
        if random.random() < 0.5:
            kept = [one for one in buffers.logical_buffers if one.id not in gone]
            del buffers.logical_buffers[:]
            buffers.logical_buffers.extend(kept)
    return True


@mutation(Claim.NOT_FRESH, weight=3)
def change_sizes(pair: Pair, random: Random) -> bool:
    """Changes the sizes of some values, perhaps those of their logical buffers, too."""
    size = random.choice(_SIZES)
    chosen = choose_some(random, _list_assigned(pair))
    ids = {one.logical_buffer_id for one in chosen}
    for one in chosen:
        one.size = size
    if random.random() < 0.5:
        for buffer in _get(pair).logical_buffers:
            buffer.size = size if buffer.id in ids else buffer.size
    return True


@mutation(Claim.NOT_FRESH, weight=3)
def move_onto_another(pair: Pair, random: Random) -> bool:
    """Moves a value to the place of another one."""
    one, other = random.choice(_list_assigned(pair)), random.choice(_list_assigned(pair))
    one.offset = other.offset
    return True


@mutation(Claim.NOT_FRESH, weight=3)
def move_outside(pair: Pair, random: Random) -> bool:
    """Moves some values beyond the end of their allocation, or before its beginning."""
    for one in choose_some(random, _list_assigned(pair)):
        one.offset = random.choice((1 << 50, -16, -(1 << 62)))
    return True


@mutation(Claim.NOT_FRESH, weight=2)
def exchange_values(pair: Pair, random: Random) -> bool:
    """Exchanges the places of two values."""
    one, other = random.choice(_list_assigned(pair)), random.choice(_list_assigned(pair))
    one.logical_buffer_id, other.logical_buffer_id = other.logical_buffer_id, one.logical_buffer_id
    return one.logical_buffer_id != other.logical_buffer_id


@mutation(Claim.NOT_FRESH, weight=2)
def name_another_instruction(pair: Pair, random: Random) -> bool:
    """Assigns a logical buffer to another instruction, or to another part of its own."""
    buffers = _get(pair).logical_buffers
    one, other = random.choice(buffers), random.choice(buffers)
    if random.random() < 0.5:
        one.defined_at.shape_index.append(0)
    elif one.defined_at == other.defined_at:
        return False
    else:
        one.defined_at.CopyFrom(other.defined_at)
    return True


@mutation(Claim.NOT_FRESH, weight=2)
def change_flags(pair: Pair, random: Random) -> bool:
    """Marks an allocation as a parameter's, as another parameter's, or as no parameter's."""
    one = random.choice(_get(pair).buffer_allocations)
    if one.is_entry_computation_parameter and random.random() < 0.5:
        one.is_entry_computation_parameter = False
    else:
        one.is_entry_computation_parameter = True
        one.parameter_number = random.choice((one.parameter_number + 1, 999, -1, 1 << 40))
    return True


@mutation(Claim.NOT_FRESH)
def repeat_allocation(pair: Pair, random: Random) -> bool:
    """Adds an allocation a second time."""
    allocations = _get(pair).buffer_allocations
    allocations.add().CopyFrom(random.choice(allocations))
    return True
