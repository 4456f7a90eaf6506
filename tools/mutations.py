"""Mutates good input for `fuzz_inspect`: bytes, fields, tokens, packing and structure. `random` alone decides."""

import gzip
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from google.protobuf.message import Message

from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto, HloProto, ShapeProto

NUMBERS = (0, 1, -1, 2, 7, 255, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 40)
OPCODES = (
    "parameter", "tuple", "get-tuple-element", "while", "conditional", "call", "fusion", "custom-call", "copy", "bitcast",
    "copy-start", "copy-done", "async-start", "async-update", "async-done", "all-reduce-start", "all-reduce-done", "add",
    "dynamic-slice", "dynamic-update-slice", "scatter", "reduce", "concatenate", "reshape", "transpose", "broadcast",
    "constant", "opt-barrier", "domain", "add-dependency", "send", "recv", "send-done", "recv-done", "all-gather", "sort",
    "map", "slice", "pad", "select", "convert", "iota", "after-all", "partition-id", "rng", "", "no-such-opcode",
)  # fmt: skip
_BOUNDS = {4: (0, (1 << 64) - 1), 5: (-(1 << 31), (1 << 31) - 1), 13: (0, (1 << 32) - 1)}
"""By the number of a field's type: uint64, int32, uint32; all others in these protobufs are int64."""
_TOKEN = re.compile(rb"[A-Za-z_][\w.-]*|\d+|\s+|.", re.DOTALL)


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Changes, inserts, removes, copies or cuts off some bytes, mostly at the edges of fields."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        at, size = random.randrange(len(found) + 1), random.choice((1, 1, 2, 8, 100))
        match random.randrange(7):
            case 0 if found:
                found[at % len(found)] ^= 1 << random.randrange(8)
            case 1 if found:
                found[at % len(found)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            case 2:
                found[at:at] = random.randbytes(size)
            case 3:
                del found[at : at + size]
            case 4:
                found[at:at] = found[at : at + size * 4]
            case 5 if random.random() < 0.3:
                del found[at:]
            case _:
                other = random.randrange(len(found) + 1)
                found[at : at + size] = found[other : other + size]
    return bytes(found)


def mutate_fields(proto: HloProto, random: Random) -> bytes:
    """Sets some fields of some messages to illegal values; changes payloads of kernels only now and then."""
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        message = _choose_message(proto, random)
        fields = [f for f in message.DESCRIPTOR.fields if f.name != "backend_config" or random.random() < 0.1]
        if fields:
            _mutate_field(message, random.choice(fields), random)
    return proto.SerializeToString()


def _choose_message(proto: HloProto, random: Random) -> Any:
    """Returns an instruction three times out of four, else any message."""
    computations = proto.hlo_module.computations
    chosen: Any = proto
    if computations and random.random() < 0.75:
        instructions = random.choice(computations).instructions
        chosen = random.choice(instructions) if instructions else proto
        if random.random() < 0.6:
            return chosen
    while True:
        inner = [value for field, value in chosen.ListFields() if field.message_type]
        if not inner or random.random() < 0.25:
            return chosen
        value: Any = random.choice(inner)
        if isinstance(value, Message):
            chosen = value
        elif hasattr(value, "add") and len(value):
            chosen = value[random.randrange(len(value))]
        else:
            return chosen


def _mutate_field(message: Any, field: Any, random: Random) -> None:
    value = getattr(message, field.name)
    if hasattr(value, "items"):
        if random.random() < 0.5:
            message.ClearField(field.name)
        return
    if hasattr(value, "MergeFrom") and not isinstance(value, Message):
        _mutate_repeated(value, field, random)
    elif isinstance(value, Message):
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _make_value(value, field, random))


def _mutate_repeated(values: Any, field: Any, random: Random) -> None:
    kind = random.randrange(4)
    if kind == 0 and len(values):
        del values[random.randrange(len(values))]
    elif field.message_type:
        if kind == 1 and len(values):
            values.add().CopyFrom(values[random.randrange(len(values))])
        elif kind == 2 and len(values) > 1:
            first, second = random.sample(range(len(values)), 2)
            kept = type(values[first])()
            kept.CopyFrom(values[first])
            values[first].CopyFrom(values[second])
            values[second].CopyFrom(kept)
        else:
            values.add()
    elif len(values) and kind == 1:
        at = random.randrange(len(values))
        values[at] = _make_value(values[at], field, random)
    else:
        sample = values[0] if len(values) else _make_empty(field)
        values.append(_make_value(sample, field, random))


def _make_empty(field: Any) -> Any:
    return {"string": "", "bytes": b""}.get({9: "string", 12: "bytes"}.get(field.type, ""), 0)


def _make_value(value: Any, field: Any, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return random.choice((*OPCODES, value * 2, value[:1], "\u202e", "a" * 5000))
    if isinstance(value, bytes):
        return random.choice((b"", value[: len(value) // 2], random.randbytes(20)))
    if isinstance(value, float):
        return random.choice((0.0, -1.0, float("inf"), float("nan")))
    number = random.choice((*NUMBERS, value + 1, value - 1, value * 2, random.randrange(100), random.randrange(100)))
    low, high = (
        (0, (1 << 32) - 1)
        if field.type == 13
        else (0, (1 << 64) - 1)
        if field.type == 4
        else (-(1 << 63), (1 << 63) - 1)
    )
    if field.type in (5, 14, 17):
        low, high = -(1 << 31), (1 << 31) - 1
    return min(max(number, low), high)


def mutate_text(data: bytes, random: Random) -> bytes:
    """Removes or doubles some tokens, or replaces them by others or by numbers."""
    tokens = _TOKEN.findall(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(tokens))
        match random.randrange(6):
            case 0:
                del tokens[at : at + random.choice((1, 1, 3, 50))]
            case 1:
                tokens[at:at] = tokens[at : at + random.choice((1, 3, 30))]
            case 2:
                tokens[at] = random.choice(tokens)
            case 3:
                tokens[at] = str(random.choice(NUMBERS)).encode()
            case 4:
                tokens[at] = random.choice(OPCODES).encode()
            case _:
                if random.random() < 0.2:
                    del tokens[at:]
        if not tokens:
            return b""
    return b"".join(tokens)


def pack(data: bytes, random: Random) -> bytes:
    """Returns a gzip file of the bytes, or one that is cut off, damaged, packed twice, a bomb, or longer than its
    header says.
    """
    packed = gzip.compress(data, 1)
    match random.randrange(7):
        case 0:
            return packed
        case 1:
            return packed[: random.randrange(2, len(packed))]
        case 2:
            return mutate_bytes(packed, random)
        case 3:
            return gzip.compress(packed, 1)
        case 4:
            return packed + random.choice((packed, b"rest", b"\x00" * 100, packed[:20]))
        case 5:
            return make_bomb(random)
        case _:
            return gzip.compress(data[: random.randrange(len(data))], 1)


def make_bomb(random: Random) -> bytes:
    """Returns some kilobytes that unpack to very many: zeros, empty messages, or text."""
    unit = random.choice((b"\x00", b"\x1a\x00", b"\x0a\x02\x1a\x00", b"HloModule m\n\nENTRY e {\n", b"\x1f\x8b", b"a"))
    block = gzip.compress(unit * ((1 << 22) // len(unit)), 9)
    return block * random.choice((1, 8, 64))


def make_structure(random: Random) -> HloProto:
    """Returns a new module of an extreme form: deep, wide, doubled or circular."""
    make: Callable[[HloModuleProto, int, Random], None] = random.choice(_STRUCTURES)
    proto = HloProto()
    proto.hlo_module.name = "extreme"
    make(proto.hlo_module, random.choice((1, 2, 10, 60, 300, 2000, 10000)), random)
    return proto


def _add_instruction(
    computation: HloComputationProto,
    number: int,
    opcode: str,
    operands: Sequence[int] = (),
    callees: Sequence[int] = (),
) -> HloInstructionProto:
    instruction = computation.instructions.add(name=f"i{number}", opcode=opcode, id=number)
    instruction.operand_ids.extend(operands)
    instruction.called_computation_ids.extend(callees)
    instruction.shape.element_type = 11
    instruction.shape.dimensions.append(8)
    computation.root_id = number
    return instruction


def _schedule(module: HloModuleProto) -> None:
    """Schedules everything in its own order; the last computation is the entry."""
    for computation in module.computations:
        module.schedule.sequences[computation.id].instruction_ids.extend(i.id for i in computation.instructions)
    module.entry_computation_id = module.computations[-1].id


def _nest_calls(module: HloModuleProto, depth: int, random: Random) -> None:
    """Makes each computation call the one before once, twice or more: the calls double with every level."""
    times, opcode = random.choice((1, 1, 2, 3)), random.choice(("call", "call", "fusion", "async-start"))
    number = 0
    for level in range(depth):
        computation = module.computations.add(name=f"c{level}", id=level + 1)
        number += 1
        _add_instruction(computation, number, "parameter")
        value = number
        for _ in range(times if level else 0):
            number += 1
            _add_instruction(computation, number, opcode, (value,), (level,))
            value = number
        if not level:
            number += 1
            call = _add_instruction(computation, number, "custom-call", (value,))
            call.custom_call_target = random.choice(("triton_kernel_call", "x", "__cublas$gemm"))
    _schedule(module)


def _nest_loops(module: HloModuleProto, depth: int, random: Random) -> None:
    """Nests loops in loops, two in each."""
    number = 0
    times = random.choice((1, 2))
    for level in range(min(depth, 2000)):
        condition = module.computations.add(name=f"d{level}", id=2 * level + 1)
        _add_instruction(condition, number + 1, "parameter")
        body = module.computations.add(name=f"c{level}", id=2 * level + 2)
        number += 2
        _add_instruction(body, number, "parameter")
        value = number
        for _ in range(times if level else 0):
            number += 1
            _add_instruction(body, number, "while", (value,), (2 * level, 2 * level - 1))
            value = number
        number += 1
        _add_instruction(body, number, "custom-call", (value,)).custom_call_target = "triton_kernel_call"
    _schedule(module)


def _nest_tuples(module: HloModuleProto, depth: int, random: Random) -> None:
    """Makes a shape that is a tuple of a tuple of a tuple."""
    computation = module.computations.add(name="c", id=1)
    instruction = _add_instruction(computation, 1, random.choice(("parameter", "custom-call", "constant")))
    shape = ShapeProto(element_type=11)
    for _ in range(min(depth, 95)):  # deeper than protobuf's own parser goes
        outer = ShapeProto(element_type=13)
        outer.tuple_shapes.append(shape)
        shape = outer
    instruction.shape.CopyFrom(shape)
    _add_instruction(computation, 2, "custom-call", (1,)).shape.CopyFrom(shape)
    _schedule(module)


def _widen_tuples(module: HloModuleProto, width: int, random: Random) -> None:
    """Makes tuples of very many elements, and passes them on many times."""
    computation = module.computations.add(name="c", id=1)
    first = _add_instruction(computation, 1, "custom-call")
    first.custom_call_target = "triton_kernel_call"
    first.shape.element_type = 13
    for _ in range(width):
        first.shape.tuple_shapes.add(element_type=11)
    for number in range(2, random.choice((3, 20, 200))):
        opcode = random.choice(("custom-call", "opt-barrier", "copy"))
        _add_instruction(computation, number, opcode, (number - 1,)).shape.CopyFrom(first.shape)
    _schedule(module)


def _turn_in_circles(module: HloModuleProto, size: int, random: Random) -> None:
    """Makes operands that come later, computations that call themselves, and circular control dependencies."""
    computation = module.computations.add(name="c", id=1)
    for number in range(1, size + 1):
        instruction = _add_instruction(
            computation, number, random.choice(OPCODES), (random.randrange(max(1, number)) + 1,)
        )
        instruction.operand_ids[:] = [i for i in instruction.operand_ids if i < number or random.random() < 0.01]
        if random.random() < 0.3:
            instruction.control_predecessor_ids.append(random.randrange(size) + 1)
        if random.random() < 0.02:
            instruction.called_computation_ids.append(1)
    _schedule(module)


def _chain(module: HloModuleProto, length: int, random: Random) -> None:
    """Makes a chain of operations with a custom call in it; now and then all names and ids are the same."""
    computation = module.computations.add(name="c", id=1)
    _add_instruction(computation, 1, "parameter")
    opcode = random.choice(OPCODES)
    for number in range(2, length + 2):
        one = _add_instruction(computation, number, opcode if number % 7 else "custom-call", (number - 1,))
        one.custom_call_target = "triton_kernel_call" if number % 14 else "x"
        one.metadata.op_name = random.choice(("", "a#ld1", "a#ld1;b#ld2", "#ld" + "9" * 400))
    _schedule(module)


_STRUCTURES = (_nest_calls, _nest_calls, _nest_loops, _nest_tuples, _widen_tuples, _turn_in_circles, _chain)
