"""Which values are one in every order: names, and what loops and branches pass on; but no copy and no in-place update."""

from ligerdiag.hlo.dataflow import Definition
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.hlo.shared_storage import SharedStorage
from ligerdiag.hlo.xla_pb2 import HloInstructionProto
from tests.hlo.building import Builder, array, find, tuple_of

PAIR = tuple_of(array(4), array(4))


def locate(builder: Builder, *positions: tuple[HloInstructionProto, ShapeIndex]) -> list[frozenset[Definition]]:
    module, _ = parse_hlo(builder.bytes())
    storage = SharedStorage(module)
    return [storage.find(find(module, one), index) for one, index in positions]


def test_names_share_a_value_and_copies_and_updates_do_not() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    pair = builder.add(entry, "tuple", [x, builder.add(entry, "copy", [x])], shape=PAIR)
    named = builder.add(entry, "bitcast", [builder.add(entry, "get-tuple-element", [pair], tuple_index=0)])
    copied = builder.add(entry, "get-tuple-element", [pair], tuple_index=1)
    updated = builder.add(entry, "dynamic-update-slice", [x, x])
    reduced = builder.add(entry, "all-reduce-start", [x])
    own = frozenset({(x.id, ())})
    positions = [(one, ()) for one in (x, named, copied, updated, reduced)]
    assert [one == own for one in locate(builder, *positions)] == [True, True, False, False, False]


def test_parameters_that_are_one_array_share_it() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x, y, z = [builder.add(entry, "parameter", parameter_number=number) for number in range(3)]
    named = builder.add(entry, "bitcast", [y])
    module, _ = parse_hlo(builder.bytes())
    storage = SharedStorage(module, {y.id: find(module, x)})
    assert storage.find(find(module, named)) == storage.find(find(module, x)) == frozenset({(x.id, ())})
    assert storage.find(find(module, z)) == frozenset({(z.id, ())})


def write_loop(*, swapped: bool) -> tuple[Builder, dict[str, HloInstructionProto]]:
    """Builds a loop that returns its first element, or the second one if `swapped`, and a new second element."""
    builder = Builder()
    body = builder.computation("body")
    state = builder.add(body, "parameter", shape=PAIR)
    first = builder.add(body, "get-tuple-element", [state], tuple_index=0)
    second = builder.add(body, "get-tuple-element", [state], tuple_index=1)
    computed = builder.add(body, "negate", [second])
    builder.add(body, "tuple", [second if swapped else first, computed], shape=PAIR)
    condition = builder.computation("condition")
    builder.add(condition, "parameter", shape=PAIR)
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    loop = builder.add(entry, "while", [builder.add(entry, "tuple", [x, x], shape=PAIR)], PAIR, [body, condition])
    return builder, {"x": x, "loop": loop, "first": first, "second": second}


def test_an_element_that_a_loop_passes_on_is_one_value_before_in_and_after_the_loop() -> None:
    builder, named = write_loop(swapped=False)
    own = frozenset({(named["x"].id, ())})
    positions = [(named["loop"], (0,)), (named["first"], ()), (named["loop"], (1,)), (named["second"], ())]
    assert [one == own for one in locate(builder, *positions)] == [True, True, False, False]


def test_elements_that_change_places_are_separate_values() -> None:
    builder, named = write_loop(swapped=True)
    own = frozenset({(named["x"].id, ())})
    positions = [(named["loop"], (0,)), (named["first"], ())]
    assert [one == own for one in locate(builder, *positions)] == [False, False]


def test_a_conditional_is_the_value_that_all_its_branches_pass_on() -> None:
    for computes in (False, True):
        builder = Builder()
        branches = [builder.computation(name) for name in ("one", "other")]
        for number, branch in enumerate(branches):
            given = builder.add(branch, "parameter")
            if number and computes:
                builder.add(branch, "negate", [given])
        entry = builder.computation("entry")
        x = builder.add(entry, "parameter")
        chosen = builder.add(entry, "conditional", [x, x, x], calls=branches)
        (found,) = locate(builder, (chosen, ()))
        assert (found == frozenset({(x.id, ())})) is not computes


def test_a_parameter_is_the_operand_of_any_of_its_callers() -> None:
    builder = Builder()
    callee = builder.computation("callee")
    given = builder.add(callee, "parameter")
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    y = builder.add(entry, "negate", [x])
    builder.add(entry, "call", [x], calls=[callee])
    called = builder.add(entry, "call", [y], calls=[callee])
    both = frozenset({(x.id, ()), (y.id, ())})
    assert locate(builder, (given, ()), (called, ())) == [both, both]
