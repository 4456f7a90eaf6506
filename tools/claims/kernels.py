"""Mutates kernel calls: a write is lost, or hidden, on one side or on both."""

from random import Random

from ligerdiag.hlo.xla_pb2 import HloInstructionProto
from tools.claims.mutation import Claim, mutation
from tools.claims.pairs import Pair, iterate_kernel_calls

_TARGETS = (
    "triton_kernel_call ",
    "Triton_kernel_call",
    "my_ffi_target",
    "triton_kernel_call\u200b",
    "__cublas$gemm2",
    "",
)
_OPCODES = ("Custom-Call", "custom_call", "custom-call ", "custom-call-start", "zzz", "")
_PAYLOADS = (b"", b"garbage", b"\x78\x9c\x00", b'{"opaque": 1}')
_INDICES = ((5,), (-1,), (0, 0), (1 << 40,), (), (0,), (1,))


def _list_calls(pair: Pair, random: Random) -> list[HloInstructionProto]:
    return [call for proto in pair.choose_sides(random) for call in iterate_kernel_calls(proto)]


@mutation(Claim.NOT_FRESH, weight=6)
def declare_alias(pair: Pair, random: Random) -> bool:
    """Makes calls declare an alias that they do not have; XLA would refuse it, or give the two buffers the same bytes."""
    operand, output = random.choice((0, 0, 1, 7, -1, 1 << 40)), random.choice(_INDICES)
    calls = _list_calls(pair, random)
    for call in calls:
        call.output_operand_aliasing.add(operand_index=operand, output_shape_index=output)
        if random.random() < 0.1:
            call.output_operand_aliasing.add(operand_index=operand, output_shape_index=output)
    return bool(calls)


@mutation(Claim.NOT_FRESH, weight=2)
def drop_alias(pair: Pair, random: Random) -> bool:
    """Removes the declared alias of calls."""
    calls = [call for call in _list_calls(pair, random) if call.output_operand_aliasing]
    for call in calls:
        del call.output_operand_aliasing[:]
    return bool(calls)


@mutation(Claim.NOT_FRESH, weight=3)
def misspell_opcode(pair: Pair, random: Random) -> bool:
    """Gives calls an opcode that XLA does not have."""
    opcode, calls = random.choice(_OPCODES), _list_calls(pair, random)
    for call in calls:
        call.opcode = opcode
    return bool(calls)


@mutation(Claim.NOT_FRESH, weight=3)
def misspell_target(pair: Pair, random: Random) -> bool:
    """Gives calls an unknown target."""
    target, calls = random.choice(_TARGETS), _list_calls(pair, random)
    for call in calls:
        call.custom_call_target = target
    return bool(calls)


@mutation(Claim.NOT_FRESH, weight=3)
def spoil_payload(pair: Pair, random: Random) -> bool:
    """Gives calls a kernel that cannot be read."""
    payload, calls = random.choice(_PAYLOADS), _list_calls(pair, random)
    for call in calls:
        call.backend_config = payload
    return bool(calls)


@mutation(Claim.MISSED, weight=3, is_last=True)
def lose_call(pair: Pair, random: Random) -> bool:
    """Replaces the call in the optimized module by another computation."""
    calls = list(iterate_kernel_calls(pair.optimized))
    if not calls:
        return False
    call = random.choice(calls)
    call.opcode = random.choice(("tuple", "constant", "copy", "opt-barrier", "add", "iota"))
    call.custom_call_target, call.backend_config = "", b""
    del call.output_operand_aliasing[:]
    return True


@mutation(Claim.NOT_FRESH, weight=2, is_last=True)
def lose_operand(pair: Pair, random: Random) -> bool:
    """Removes the first operand of the calls of one side; on both sides it would be another program."""
    calls = [call for call in iterate_kernel_calls(random.choice(pair.protos)) if call.operand_ids]
    for call in calls:
        del call.operand_ids[0]
    return bool(calls)


@mutation(Claim.STALE_STAYS, weight=4, is_last=True)
def overwrite_copy(pair: Pair, random: Random) -> bool:
    """Makes the optimized call overwrite a copy of its operand; with a place for it, or without."""
    calls = {call.id: call for call in iterate_kernel_calls(pair.optimized) if call.operand_ids}
    module = pair.optimized.hlo_module
    holders = [c for c in module.computations if any(one.id in calls for one in c.instructions)]
    if not holders:
        return False
    computation = random.choice(holders)
    call = random.choice([one for one in computation.instructions if one.id in calls])
    operand = random.randrange(len(call.operand_ids))
    number = 1 + max(one.id for c in module.computations for one in c.instructions)
    source = next(one for one in computation.instructions if one.id == call.operand_ids[operand])
    copy = HloInstructionProto(
        name="copy.claimed", opcode="copy", id=number, operand_ids=[source.id], shape=source.shape
    )
    listed = [HloInstructionProto.FromString(one.SerializeToString()) for one in computation.instructions]
    position = next(rank for rank, one in enumerate(listed) if one.id == call.id)
    listed[position].operand_ids[operand] = number
    identity = call.id
    listed.insert(position, copy)
    del computation.instructions[:]
    computation.instructions.extend(listed)
    if computation.id in module.schedule.sequences:
        sequence = module.schedule.sequences[computation.id].instruction_ids
        sequence.insert(list(sequence).index(identity), number)
    if random.random() < 0.5:
        _place(pair, number, 4 * _count(copy))
    return True


def _count(one: HloInstructionProto) -> int:
    count = 1
    for dimension in one.shape.dimensions:
        count *= dimension
    return count


def _place(pair: Pair, instruction: int, size: int) -> None:
    buffers = pair.optimized.buffer_assignment
    key = 1 + max((one.id for one in buffers.logical_buffers), default=0)
    allocation = buffers.buffer_allocations.add(
        index=1 + max((one.index for one in buffers.buffer_allocations), default=0), size=size
    )
    allocation.assigned.add(logical_buffer_id=key, size=size)
    buffer = buffers.logical_buffers.add(id=key, size=size)
    buffer.defined_at.instruction_id = instruction
