"""A backward slice finds the parameters that a value is computed from."""

from ligerdiag.analysis.verdict.schedule_alone import BackwardSlices
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.by_hand import Program
from tests.hlo.building import array, find, tuple_of

PAIR = tuple_of(array(4), array(4))


def test_a_write_to_a_tuple_element_is_seen_under_every_name_of_the_element() -> None:
    # the kernel and the reader get the second element from two instructions
    program = Program()
    entry = program.computation("entry")
    pair = program.op(entry, "parameter", shape=PAIR)
    other = program.op(entry, "parameter", parameter_number=1)
    one, same = (program.op(entry, "get-tuple-element", pair, tuple_index=1) for _ in range(2))
    first = program.op(entry, "get-tuple-element", pair, tuple_index=0)
    program.kernel(entry, one, other, tag=1)
    reader = program.op(entry, "negate", same)
    elsewhere = program.op(entry, "abs", first)
    module = parse_hlo(program.bytes())[0]
    call = next(call for _, call in module.iterate_custom_calls())
    slices = BackwardSlices(module, [(call, 0)])
    assert slices.find_parameters(find(module, reader)) == {0, 1}
    assert slices.find_parameters(find(module, elsewhere)) == {0}
    assert slices.find_parameters(find(module, pair)) == {0, 1}


def test_a_slice_includes_loop_conditions_and_branch_predicates() -> None:
    program = Program()
    body = program.computation("body")
    state = program.op(body, "parameter", shape=PAIR)
    still = program.op(body, "get-tuple-element", state, tuple_index=0)
    count = program.op(body, "get-tuple-element", state, tuple_index=1)
    program.op(body, "tuple", still, count, shape=PAIR)
    condition = program.computation("condition")
    seen = program.op(condition, "parameter", shape=PAIR)
    program.op(condition, "get-tuple-element", seen, tuple_index=1)
    branch = program.computation("branch")
    program.op(branch, "parameter")
    entry = program.computation("entry")
    x, y, z = (program.op(entry, "parameter", parameter_number=n) for n in range(3))
    start = program.op(entry, "tuple", x, y, shape=PAIR)
    loop = program.op(entry, "while", start, shape=PAIR, calls=[body, condition])
    left = program.op(entry, "get-tuple-element", loop, tuple_index=0)
    choice = program.op(entry, "conditional", z, left, left, calls=[branch, branch])
    module = parse_hlo(program.bytes())[0]
    slices = BackwardSlices(module, [])
    assert slices.find_parameters(find(module, still)) == {
        0
    }  # within an iteration, the condition has already been evaluated
    assert slices.find_parameters(find(module, left)) == {0, 1}
    assert slices.find_parameters(find(module, choice)) == {0, 1, 2}
