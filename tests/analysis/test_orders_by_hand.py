"""Dependences that force an order, logical times, and the origins of operands."""

import pytest

from ligerdiag.analysis.evaluation.order import Order, compute_logical_times
from ligerdiag.analysis.reaching_definitions import find_origins
from ligerdiag.analysis.writes import Frame, find_hidden_writes
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloInstructionProto
from ligerdiag.provenance.value_numbers import number_values
from tests.analysis.by_hand import Program, effects_of
from tests.hlo.building import array, tuple_of

PAIR = tuple_of(array(4), array(4))


def read(program: Program) -> HloModule:
    return parse_hlo(program.bytes())[0]


def origins(program: Program) -> list[tuple[list[int], int]]:
    """Returns (ids of the callers on the path, id of the origin) for each origin of the only hidden write."""
    module = read(program)
    (write,) = find_hidden_writes(module, effects_of)
    return sorted(
        ([f.instruction.id for f in frames[:-1]], frames[-1].instruction.id) for frames in find_origins(write)
    )


@pytest.mark.parametrize("from_second", [False, True])
def test_operands_and_control_edges_force_an_order_and_list_positions_do_not(*, from_second: bool) -> None:
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    a, b = program.op(entry, "negate", x), program.op(entry, "abs", x)
    c = program.op(entry, "sine", b)
    d = program.op(entry, "cosine", a)
    b.control_predecessor_ids.append(a.id)
    module = read(program)
    frames = {i.id: (Frame(module.entry, i),) for i in module.entry.instructions}
    forced = {
        (x.id, a.id),
        (x.id, b.id),
        (x.id, c.id),
        (x.id, d.id),
        (a.id, b.id),
        (a.id, c.id),
        (a.id, d.id),
        (b.id, c.id),
    }
    questions_in_order = [(one, other) for one in (x, a, b, c, d) for other in (d, c, b, a, x) if one is not other]
    for questions in (questions_in_order, questions_in_order[::-1]):  # earlier questions do not change an answer
        order = Order()
        for first, second in questions:
            is_forced = order.is_forced(frames[first.id], frames[second.id], from_second=from_second)
            assert is_forced == ((first.id, second.id) in forced)


def test_logical_times_put_a_condition_before_its_body_and_both_before_their_loop() -> None:
    program = Program()
    body = program.computation("body")
    in_body = program.op(body, "negate", program.op(body, "parameter"))
    condition = program.computation("condition")
    in_condition = program.op(condition, "negate", program.op(condition, "parameter"))
    entry = program.computation("entry")
    loop = program.op(entry, "while", program.op(entry, "parameter"), calls=[body, condition])
    times = compute_logical_times(read(program))
    assert times[in_condition.id] < times[in_body.id] < times[loop.id]
    assert sorted(times.values()) == list(range(len(times)))


def test_the_origin_of_a_plain_operand_is_the_operand() -> None:
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"))
    program.kernel(entry, h, tag=1)
    assert origins(program) == [([], h.id)]


def test_origins_are_found_through_calls_tuples_and_barriers() -> None:
    program = Program()
    callee = program.computation("callee")
    program.op(callee, "parameter", parameter_number=0)
    given = program.op(callee, "parameter", parameter_number=1)
    program.kernel(callee, given, tag=1)
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h, other = program.op(entry, "negate", x), program.op(entry, "abs", x)
    pair = program.op(entry, "opt-barrier", program.op(entry, "tuple", other, h, shape=PAIR), shape=PAIR)
    second = program.op(entry, "get-tuple-element", pair, tuple_index=1)
    program.op(entry, "call", other, second, calls=[callee])
    assert origins(program) == [([], h.id)]


def test_the_origin_of_a_result_of_a_call_is_in_the_callee() -> None:
    program = Program()
    callee = program.computation("callee")
    x = program.op(callee, "parameter")
    a, b = program.op(callee, "negate", x), program.op(callee, "abs", x)
    program.op(callee, "tuple", a, b, shape=PAIR)
    entry = program.computation("entry")
    call = program.op(entry, "call", program.op(entry, "parameter"), shape=PAIR, calls=[callee])
    program.kernel(entry, program.op(entry, "get-tuple-element", call, tuple_index=1), tag=1)
    assert origins(program) == [([call.id], b.id)]


def build_loop(inside: bool) -> tuple[Program, dict[str, HloInstructionProto]]:
    program = Program()
    body = program.computation("body")
    state = program.op(body, "parameter", shape=PAIR)
    moving = program.op(body, "get-tuple-element", state, tuple_index=0)
    still = program.op(body, "get-tuple-element", state, tuple_index=1)
    moved = program.op(body, "negate", moving)
    if inside:
        program.kernel(body, moving, tag=1)
    program.op(body, "tuple", moved, still, shape=PAIR)
    condition = program.computation("condition")
    program.op(condition, "parameter", shape=PAIR)
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    start = program.op(entry, "abs", x)
    loop = program.op(
        entry, "while", program.op(entry, "tuple", start, x, shape=PAIR), shape=PAIR, calls=[body, condition]
    )
    return program, {"moved": moved, "start": start, "loop": loop, "x": x}


def test_a_carried_value_comes_from_before_the_loop_and_from_the_previous_iteration() -> None:
    program, made = build_loop(inside=True)
    assert origins(program) == [([], made["start"].id), ([made["loop"].id], made["moved"].id)]


def test_the_result_of_a_loop_comes_from_its_body_or_from_before_the_loop() -> None:
    program, made = build_loop(inside=False)
    entry = program.proto.hlo_module.computations[-1]
    program.kernel(entry, program.op(entry, "get-tuple-element", made["loop"], tuple_index=0), tag=1)
    assert origins(program) == [([], made["start"].id), ([made["loop"].id], made["moved"].id)]


def test_a_value_that_a_loop_only_passes_on_comes_from_before_the_loop() -> None:
    program, made = build_loop(inside=False)
    entry = program.proto.hlo_module.computations[-1]
    program.kernel(entry, program.op(entry, "get-tuple-element", made["loop"], tuple_index=1), tag=1)
    assert origins(program) == [([], made["x"].id)]


def test_the_origin_of_an_operand_in_a_branch_is_the_operand_of_that_branch() -> None:
    program = Program()
    first, second = program.computation("first"), program.computation("second")
    program.op(first, "parameter")
    program.kernel(second, program.op(second, "parameter"), tag=1)
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    a, b = program.op(entry, "negate", x), program.op(entry, "abs", x)
    program.op(entry, "conditional", x, a, b, calls=[first, second])
    assert origins(program) == [([], b.id)]


def test_the_origin_of_an_operand_in_a_fusion_is_the_matching_operand_of_the_fusion() -> None:
    program = Program()
    fused = program.computation("fused")
    program.op(fused, "parameter", parameter_number=0)
    program.kernel(fused, program.op(fused, "parameter", parameter_number=1), tag=1)
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    a, b = program.op(entry, "negate", x), program.op(entry, "abs", x)
    program.op(entry, "fusion", a, b, calls=[fused])
    assert origins(program) == [([], b.id)]


@pytest.mark.parametrize("opcode", ["opt-barrier", "domain", "add-dependency"])
def test_an_operation_that_only_orders_is_not_an_origin(opcode: str) -> None:
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"))
    program.kernel(entry, program.op(entry, opcode, h), tag=1)
    assert origins(program) == [([], h.id)]


def test_twins_have_the_same_opcode_shape_and_operands() -> None:
    program = Program()
    entry = program.computation("entry")
    x, y = program.op(entry, "parameter"), program.op(entry, "parameter", parameter_number=1)
    a, again = program.op(entry, "negate", x, tag=1), program.op(entry, "negate", x, tag=2)
    longer = program.op(entry, "negate", x, shape=array(5))
    other = program.op(entry, "negate", y)
    deep, deep_again = program.op(entry, "abs", a), program.op(entry, "abs", again)
    module = read(program)
    numbers = number_values(module.entry)
    assert numbers[a.id] == numbers[again.id]
    assert numbers[deep.id] == numbers[deep_again.id]
    for one, another in ((a, longer), (a, other), (x, y), (a, deep)):
        assert numbers[one.id] != numbers[another.id]
