"""Legal orders keep operands, control edges and effects, and put each unordered read before a kernel or after it."""

from ligerdiag.hlo.legal_orders import LegalOrder, draw_orders
from ligerdiag.hlo.module import HloComputation, HloModule
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloInstructionProto
from tests.hlo.building import Builder, array, find, tuple_of


def read(builder: Builder) -> HloModule:
    for computation in builder.proto.hlo_module.computations:
        builder.schedule(computation)
    return parse_hlo(builder.bytes())[0]


def find_position(order: LegalOrder, one: HloInstructionProto) -> int:
    return next(at for some in order.sequences.values() for at, i in enumerate(some) if i.id == one.id)


def is_legal(home: HloComputation, order: LegalOrder) -> bool:
    """Returns whether the order has each instruction once, after its operands and control predecessors."""
    numbers = [one.id for one in order.sequences[home.id]]
    places = {number: at for at, number in enumerate(numbers)}
    edges = [(before, one.id) for one in home.instructions for before in one.control_predecessors]
    edges += [(operand.id, one.id) for one in home.instructions for operand in one.operands]
    return sorted(numbers) == sorted(one.id for one in home.instructions) and all(
        places[before] < places[after] for before, after in edges
    )


def write_chain() -> tuple[Builder, dict[str, HloInstructionProto]]:
    """Builds two kernels on separate values, and three readers of the first value.

    Nothing orders `free` and the kernel; a control edge puts `early` before the kernel; `dependent` needs what it returns.
    """
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    h, g = builder.add(entry, "negate", [x]), builder.add(entry, "sine", [x])
    early, free = builder.add(entry, "abs", [h]), builder.add(entry, "cosine", [h])
    kernel = builder.add(entry, "custom-call", [h])
    kernel.control_predecessor_ids.append(early.id)
    dependent = builder.add(entry, "add", [h, kernel])
    other = builder.add(entry, "custom-call", [g])
    builder.add(entry, "tuple", [early, free, dependent, other], shape=tuple_of(*[array(4)] * 4))
    return builder, {"free": free, "early": early, "dependent": dependent, "kernel": kernel, "other": other}


def test_every_order_is_legal_and_each_free_choice_is_made_both_ways() -> None:
    builder, named = write_chain()
    module = read(builder)
    orders = list(draw_orders(module, [named["kernel"].id, named["other"].id], 40))
    assert len(orders) == 40
    assert all(is_legal(module.entry, order) for order in orders)

    def before(one: str, two: str) -> set[bool]:
        return {find_position(order, named[one]) < find_position(order, named[two]) for order in orders}

    assert before("early", "kernel") == {True}
    assert before("kernel", "dependent") == {True}
    assert before("free", "kernel") == before("kernel", "other") == before("free", "other") == {True, False}
    assert before("other", "dependent") == {True, False}


def test_the_first_two_orders_have_the_kernels_first_and_last() -> None:
    builder, named = write_chain()
    first, last = draw_orders(read(builder), [named["kernel"].id, named["other"].id], 2)
    assert find_position(first, named["kernel"]) < find_position(first, named["free"])
    assert find_position(last, named["kernel"]) > find_position(last, named["free"])
    assert (first.late, first.name) == (frozenset(), "kernels first (0)")


def test_effects_keep_their_order_and_a_kernel_in_a_loop_moves_the_loop() -> None:
    builder = Builder()
    body = builder.computation("body")
    state = builder.add(body, "parameter")
    kernel = builder.add(body, "custom-call", [state])
    inner = builder.add(body, "abs", [state])
    builder.add(body, "add", [inner, kernel])
    condition = builder.computation("condition")
    builder.add(condition, "is-finite", [builder.add(condition, "parameter")])
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    loop = builder.add(entry, "while", [x], calls=[body, condition])
    reader = builder.add(entry, "sine", [x])
    draws = [builder.add(entry, "rng-get-and-update-state") for _ in range(3)]
    builder.add(entry, "tuple", [loop, reader, *draws], shape=tuple_of(*[array(4)] * 5))
    module = read(builder)
    orders = list(draw_orders(module, [kernel.id], 30))
    assert {tuple(sorted(draws, key=lambda one: find_position(order, one))) == tuple(draws) for order in orders} == {
        True
    }
    assert {find_position(order, loop) < find_position(order, reader) for order in orders} == {True, False}
    assert {find_position(order, kernel) < find_position(order, inner) for order in orders} == {True, False}
    assert all(find(module, loop).called_computations[0] in order.sequences for order in orders)


def test_the_same_orders_are_drawn_each_time() -> None:
    builder, named = write_chain()
    module = read(builder)

    def draw() -> list[list[int]]:
        orders = draw_orders(module, [named["kernel"].id], 12)
        return [[one.id for one in order.sequences[module.entry.id]] for order in orders]

    assert draw() == draw()
