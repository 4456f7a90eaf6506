"""Finds operands and results of one call that share their bytes."""

from ligerdiag.analysis.evaluation.memory_uses import SharedBuffers, find_shared_buffers
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from tests.hlo.building import Builder, array, find, tuple_of

PAIR = tuple_of(array(4), array(4))


def build() -> tuple[Builder, HloComputationProto, list[HloInstructionProto]]:
    """Builds two values at offsets 0 and 16."""
    builder = Builder()
    entry = builder.computation("entry")
    values = [builder.add(entry, "parameter", parameter_number=number) for number in range(2)]
    for number, value in enumerate(values):
        builder.define(value, offset=16 * number)
    return builder, entry, values


def list_shared(builder: Builder, call: HloInstructionProto) -> list[SharedBuffers]:
    module, positions = builder.positions()
    return list(find_shared_buffers(find(module, call), positions))


def test_a_declared_alias_is_shared_even_without_storage() -> None:
    builder, entry, (x, y) = build()
    call = builder.add(entry, "custom-call", [x, y], PAIR)
    alias = call.output_operand_aliasing.add(operand_index=1)
    alias.output_shape_index.append(0)
    assert list_shared(builder, call) == [SharedBuffers(operand=1, buffer=2, declared=True)]


def test_an_output_in_the_bytes_of_an_operand_is_shared() -> None:
    builder, entry, (x, y) = build()
    moved = builder.add(entry, "bitcast", [y])
    call = builder.add(entry, "custom-call", [x, moved], PAIR)
    builder.define(call, 0, offset=64)
    builder.define(call, 1, offset=16)
    assert list_shared(builder, call) == [SharedBuffers(operand=1, buffer=3, declared=False)]


def test_a_value_that_is_passed_twice_is_shared() -> None:
    builder, entry, (x, _) = build()
    call = builder.add(entry, "custom-call", [x, x])
    builder.define(call, offset=64)
    assert list_shared(builder, call) == [
        SharedBuffers(operand=0, buffer=1, declared=False),
        SharedBuffers(operand=1, buffer=0, declared=False),
    ]


def test_a_declared_alias_is_reported_once() -> None:
    builder, entry, (x, _) = build()
    call = builder.add(entry, "custom-call", [x])
    call.output_operand_aliasing.add(operand_index=0)
    builder.define(call, offset=0)
    assert list_shared(builder, call) == [SharedBuffers(operand=0, buffer=1, declared=True)]


def test_partial_overlaps_and_values_without_storage_are_not_shared() -> None:
    builder, entry, (x, _) = build()
    placeless = builder.add(entry, "negate", [x])
    call = builder.add(entry, "custom-call", [x, placeless], tuple_of(array(4), array(4)))
    builder.define(call, 0, offset=8)
    assert list_shared(builder, call) == []
