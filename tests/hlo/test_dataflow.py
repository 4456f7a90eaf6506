"""The dataflow finds the operations that define a value."""

import pytest

from ligerdiag.hlo.dataflow import Dataflow, PassThrough, find_shortest_path, search
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloInstructionProto
from tests.hlo.building import Builder, array, find, tuple_of

PAIR = tuple_of(array(4), array(4))
EVERYTHING = PassThrough(
    bitcasts=True,
    barriers=True,
    tuples=True,
    calls=True,
    fusions=True,
    branches=True,
    loop_entry=True,
    loop_back=True,
    arguments=True,
    asynchronous=True,
)


def sources(
    builder: Builder, message: HloInstructionProto, *index: int, through: PassThrough = EVERYTHING
) -> list[tuple[int, tuple[int, ...]]]:
    module = parse_hlo(builder.bytes())[0]
    return [(one.id, rest) for one, rest in Dataflow(module, through).list_sources(find(module, message), index)]


@pytest.mark.parametrize("opcode", ["bitcast", "opt-barrier", "domain", "add-dependency"])
def test_an_operation_that_is_not_looked_through_defines_its_value(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    name = builder.add(entry, opcode, [x])
    assert sources(builder, name) == [(x.id, ())]
    assert sources(builder, name, through=PassThrough(tuples=True, asynchronous=True, arguments=True)) == []


def test_a_tuple_defines_the_whole_tuple_and_not_its_elements() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    pair = builder.add(entry, "tuple", [x, x], PAIR)
    assert sources(builder, pair) == []
    assert sources(builder, pair, 1) == [(x.id, ())]


def test_the_result_of_a_fusion_is_the_result_of_its_computation() -> None:
    builder = Builder()
    fused = builder.computation("fused")
    root = builder.add(fused, "negate", [builder.add(fused, "parameter")])
    entry = builder.computation("entry")
    fusion = builder.add(entry, "fusion", [builder.add(entry, "parameter")], calls=[fused])
    assert sources(builder, fusion) == [(root.id, ())]
    assert sources(builder, fusion, through=PassThrough(calls=True)) == []


def test_a_loop_and_its_parameters_have_two_sources() -> None:
    builder = Builder()
    body = builder.computation("body")
    state = builder.add(body, "parameter")
    moved = builder.add(body, "negate", [state])
    condition = builder.computation("condition")
    seen = builder.add(condition, "parameter")
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    loop = builder.add(entry, "while", [x], calls=[body, condition])
    for one in (loop, state, seen):
        assert sources(builder, one) == [(x.id, ()), (moved.id, ())]
        assert sources(builder, one, through=PassThrough(loop_back=True)) == [(moved.id, ())]
        assert sources(builder, one, through=PassThrough(arguments=True)) == []


def test_a_computation_that_two_branches_share_gets_the_operands_of_both() -> None:
    builder = Builder()
    branch = builder.computation("branch")
    given = builder.add(branch, "parameter")
    entry = builder.computation("entry")
    predicate = builder.add(entry, "parameter")
    x, y = (builder.add(entry, "parameter", parameter_number=n) for n in (1, 2))
    builder.add(entry, "conditional", [predicate, x, y], calls=[branch, branch])
    assert sources(builder, given) == [(x.id, ()), (y.id, ())]


def test_a_reducer_gets_elements_and_not_the_operand() -> None:
    builder = Builder()
    reducer = builder.computation("reducer")
    element = builder.add(reducer, "parameter", shape=array())
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    builder.add(entry, "reduce", [x, x], array(), calls=[reducer])
    assert sources(builder, element) == []


def build_diamond() -> HloModule:
    """Builds e = c + d, with c = -a, d = |b| and b = sqrt a."""
    builder = Builder()
    entry = builder.computation("entry")
    a = builder.add(entry, "parameter")
    c = builder.add(entry, "negate", [a])
    d = builder.add(entry, "abs", [builder.add(entry, "sqrt", [a])])
    builder.add(entry, "add", [c, d])
    return parse_hlo(builder.bytes())[0]


def test_a_path_is_a_shortest_one_and_a_start_may_be_its_target() -> None:
    root = build_diamond().entry.root
    path = find_shortest_path([root], lambda one: one.operands, lambda one: one.opcode == "parameter")
    assert [one.opcode for one in path] == ["add", "negate", "parameter"]
    assert find_shortest_path([root], lambda one: one.operands, lambda one: one is root) == (root,)
    assert find_shortest_path([root], lambda one: one.operands, lambda one: one.opcode == "iota") == ()


def test_a_search_finds_the_nearest_first_and_stops_above_its_limit() -> None:
    root = build_diamond().entry.root
    found = [one.opcode for one in search([root], lambda one: one.operands)]
    assert found == ["add", "negate", "abs", "parameter", "sqrt"]
    assert len(search([root], lambda one: one.operands, most=2)) == 3
