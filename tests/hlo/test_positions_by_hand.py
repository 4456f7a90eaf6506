"""The storage of values in modules made by hand."""

from ligerdiag.hlo.dataflow import Positions
from tests.hlo.building import Builder, array, find, tuple_of

PAIR = tuple_of(array(4), array(4))


def test_bitcasts_and_barriers_have_the_storage_of_their_operand() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    place = builder.define(x)
    last = x
    for opcode in ("bitcast", "opt-barrier", "domain", "add-dependency"):
        last = builder.add(entry, opcode, [last])
    module, positions = builder.positions()
    assert positions.locate(find(module, last)) == (place,)


def test_an_operation_that_computes_has_the_storage_that_it_defines_or_none() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    builder.define(x)
    defined = builder.add(entry, "negate", [x])
    place = builder.define(defined)
    placeless = builder.add(entry, "abs", [x])
    module, positions = builder.positions()
    assert positions.locate(find(module, defined)) == (place,)
    assert positions.locate(find(module, placeless)) == (None,)


def test_elements_are_found_through_nested_tuples() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x, y = builder.add(entry, "parameter"), builder.add(entry, "parameter", parameter_number=1)
    at_x, at_y = builder.define(x), builder.define(y)
    inner = builder.add(entry, "tuple", [y, x], PAIR)
    outer = builder.add(entry, "tuple", [x, inner], tuple_of(array(4), PAIR))
    pair = builder.add(entry, "get-tuple-element", [outer], PAIR, tuple_index=1)
    first = builder.add(entry, "get-tuple-element", [pair], tuple_index=0)
    module, positions = builder.positions()
    assert positions.locate(find(module, outer)) == (at_x, at_y, at_x)
    assert positions.locate(find(module, pair)) == (at_y, at_x)
    assert positions.locate(find(module, first)) == (at_y,)


def build_loop(define_phi: bool) -> tuple[Positions, list[tuple[int | None, ...]], list[int]]:
    builder = Builder()
    body = builder.computation("body")
    state = builder.add(body, "parameter", shape=PAIR)
    moving = builder.add(body, "get-tuple-element", [state], tuple_index=0)
    still = builder.add(body, "get-tuple-element", [state], tuple_index=1)
    moved = builder.add(body, "negate", [moving])
    builder.add(body, "tuple", [moved, still], PAIR)
    condition = builder.computation("condition")
    seen = builder.add(condition, "parameter", shape=PAIR)
    builder.add(condition, "get-tuple-element", [seen], tuple_index=1)
    entry = builder.computation("entry")
    x, y = builder.add(entry, "parameter"), builder.add(entry, "parameter", parameter_number=1)
    initial = builder.add(entry, "tuple", [x, y], PAIR)
    loop = builder.add(entry, "while", [initial], PAIR, calls=[body, condition])
    places = [builder.define(x), builder.define(y)]
    if define_phi:
        places += [builder.define(state, 0), builder.define(loop, 0)]
    module, positions = builder.positions()
    return positions, [positions.locate(find(module, i)) for i in (state, seen, still, loop)], places


def test_a_loop_invariant_has_the_storage_of_the_operand() -> None:
    _, (state, seen, still, loop), (at_x, at_y) = build_loop(define_phi=False)
    assert state == seen == loop == (at_x, at_y)
    assert still == (at_y,)


def test_a_phi_has_its_own_storage() -> None:
    _, (state, seen, still, loop), (at_x, at_y, phi, result) = build_loop(define_phi=True)
    assert state == (phi, at_y)
    assert seen == (at_x, at_y)
    assert still == (at_y,)
    assert loop == (result, at_y)


def test_a_call_has_the_storage_of_its_root_and_parameters_that_of_operands() -> None:
    builder = Builder()
    callee = builder.computation("callee")
    builder.add(callee, "parameter")
    second = builder.add(callee, "parameter", parameter_number=1)
    entry = builder.computation("entry")
    x, y = builder.add(entry, "parameter"), builder.add(entry, "parameter", parameter_number=1)
    builder.define(x)
    at_y = builder.define(y)
    call = builder.add(entry, "call", [x, y], calls=[callee])
    module, positions = builder.positions()
    assert positions.locate(find(module, second)) == (at_y,)
    assert positions.locate(find(module, call)) == (at_y,)


def test_the_parameter_of_a_branch_has_the_storage_of_its_own_operand() -> None:
    builder = Builder()
    branches = [builder.computation("then"), builder.computation("else")]
    parameters = [builder.add(branch, "parameter") for branch in branches]
    entry = builder.computation("entry")
    predicate = builder.add(entry, "parameter")
    x, y = (builder.add(entry, "parameter", parameter_number=n) for n in (1, 2))
    places = [builder.define(x), builder.define(y)]
    builder.add(entry, "conditional", [predicate, x, y], calls=branches)
    module, positions = builder.positions()
    assert [positions.locate(find(module, p)) for p in parameters] == [(places[0],), (places[1],)]


def test_an_async_call_has_the_storage_of_operands_and_results() -> None:
    builder = Builder()
    callee = builder.computation("callee")
    inner = builder.add(callee, "parameter")
    result = builder.add(callee, "negate", [inner])
    at_result = builder.define(result)
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    at_x = builder.define(x)
    start = builder.add(entry, "async-start", [x], tuple_of(tuple_of(array(4)), array(4)), [callee])
    update = builder.add(entry, "async-update", [start], tuple_of(tuple_of(array(4)), array(4)))
    done = builder.add(entry, "async-done", [update])
    module, positions = builder.positions()
    assert positions.locate(find(module, inner)) == (at_x,)
    assert positions.locate(find(module, start)) == positions.locate(find(module, update)) == (at_x, at_result)
    assert positions.locate(find(module, done)) == (at_result,)


def test_a_copy_start_has_the_copy_first_and_the_source_second() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    at_x = builder.define(x)
    start = builder.add(entry, "copy-start", [x], PAIR)
    at_copy = builder.define(start, 0)
    done = builder.add(entry, "copy-done", [start])
    module, positions = builder.positions()
    assert positions.locate(find(module, start)) == (at_copy, at_x)
    assert positions.locate(find(module, done)) == (at_copy,)


def test_results_of_a_combined_all_gather_are_not_its_tuple_tables() -> None:
    # the start defines the tables of pointers at {0} and {1} as well
    builder = Builder()
    entry = builder.computation("entry")
    x, y = builder.add(entry, "parameter"), builder.add(entry, "parameter", parameter_number=1)
    operands = [builder.define(x), builder.define(y)]
    start = builder.add(entry, "all-gather-start", [x, y], tuple_of(PAIR, PAIR))
    for index in ((), (0,), (1,)):
        builder.define(start, *index)
    results = [builder.define(start, 1, 0), builder.define(start, 1, 1)]
    done = builder.add(entry, "all-gather-done", [start], PAIR)
    module, positions = builder.positions()
    assert positions.locate(find(module, start)) == (*operands, *results)
    assert positions.locate(find(module, done)) == tuple(results)


def test_an_all_gather_of_one_operand_has_one_result() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    at_x = builder.define(x)
    start = builder.add(entry, "all-gather-start", [x], PAIR)
    result = builder.define(start, 1)
    done = builder.add(entry, "all-gather-done", [start])
    module, positions = builder.positions()
    assert positions.locate(find(module, start)) == (at_x, result)
    assert positions.locate(find(module, done)) == (result,)


def test_a_combined_all_reduce_start_has_the_shape_of_its_done() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x, y = builder.add(entry, "parameter"), builder.add(entry, "parameter", parameter_number=1)
    builder.define(x)
    builder.define(y)
    start = builder.add(entry, "all-reduce-start", [x, y], PAIR)
    results = (builder.define(start, 0), builder.define(start, 1))
    done = builder.add(entry, "all-reduce-done", [start], PAIR)
    module, positions = builder.positions()
    assert positions.locate(find(module, done)) == results
