"""Operations of the program whose results, or pieces of them, do not all depend on all operands."""

import pytest

from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from tests.analysis.by_hand import Program, judge, verdicts
from tests.hlo.building import array, tuple_of

PAIR = tuple_of(array(4), array(4))
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "collective-broadcast")


def write_negations(program: Program) -> HloComputationProto:
    """Each of its two results is made of one parameter."""
    fused = program.computation("fused")
    negated = [program.op(fused, "negate", program.op(fused, "parameter", parameter_number=n)) for n in (0, 1)]
    program.op(fused, "tuple", *negated, shape=PAIR)
    return fused


def write(order: str, joins: str) -> Program:
    """h = -x and g = |x|; the kernel (k) on h, and an operation of both (j), in this order; its two results are returned."""
    program = Program()
    calls = [write_negations(program)] if joins == "fusion" else []
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h, g = program.op(entry, "negate", x, tag=1), program.op(entry, "abs", x, tag=2)
    made = {
        letter: program.kernel(entry, h, tag=3)
        if letter == "k"
        else program.op(entry, joins, h, g, tag=4, shape=PAIR, calls=calls)
        for letter in order
    }
    results = [program.op(entry, "get-tuple-element", made["j"], tuple_index=number) for number in (0, 1)]
    program.place(x, h, g, *made.values())
    for number in (0, 1):
        program.define(made["j"], number)
    program.op(entry, "tuple", *results, shape=PAIR)
    return program


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(("order", "expected"), [("kj", "latent"), ("jk", "stale")])
def test_each_result_of_a_collective_is_of_its_own_operand(collective: str, order: str, expected: str) -> None:
    context = judge(write("kj", collective), write(order, collective), "of h", "of g")
    assert verdicts(context) == [expected, "fresh"]


@pytest.mark.parametrize(("order", "expected"), [("kj", "latent"), ("jk", "stale")])
def test_a_program_with_fusions_is_read_operation_by_operation(order: str, expected: str) -> None:
    assert verdicts(judge(write("kj", "fusion"), write(order, "fusion"), "of h", "of g")) == [expected, "fresh"]


def write_permuted(order: str) -> Program:
    """h = -x; the kernel (k) on h; h is sent to other devices (p), into a place within another array."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h, into, at = (program.op(entry, "negate", x, tag=tag) for tag in (1, 2, 3))
    made = {
        letter: program.kernel(entry, h, tag=4)
        if letter == "k"
        else program.op(entry, "collective-permute", h, into, at, at, tag=5)
        for letter in order
    }
    program.place(x, h, into, at, *made.values())
    program.op(entry, "tuple", made["k"], made["p"], shape=PAIR)
    return program


@pytest.mark.parametrize(("order", "expected"), [("kp", "latent"), ("pk", "stale")])
def test_a_permutation_into_an_array_has_one_result_of_all_its_operands(order: str, expected: str) -> None:
    assert verdicts(judge(write_permuted("kp"), write_permuted(order), "sums", "sent")) == ["fresh", expected]


def cut(
    program: Program, entry: HloComputationProto, whole: HloInstructionProto, start: int, tag: int
) -> HloInstructionProto:
    taken = program.op(entry, "slice", whole, tag=tag)
    taken.slice_dimensions.add(start=start, limit=start + 4, stride=1)
    return taken


def write_joined(order: str = "kjc") -> Program:
    """h = -x and g = |x| are joined (j) and cut out (c); the kernel (k) is called on h, and on both once they are joined."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h, g = program.op(entry, "negate", x, tag=1), program.op(entry, "abs", x, tag=2)
    joined, calls, results = h, list[HloInstructionProto](), list[HloInstructionProto]()
    for number, letter in enumerate(order):
        match letter:
            case "k":
                calls.append(program.kernel(entry, joined, tag=3 + number))
            case "j":
                joined = program.op(entry, "concatenate", h, g, tag=10, shape=array(8), dimensions=[0])
            case _:
                results = [cut(program, entry, joined, 4 * number, 11 + number) for number in (0, 1)]
    program.place(x, h, g, *calls, *results)
    program.define(joined, size=32)
    program.op(entry, "tuple", *results, shape=PAIR)
    return program


def write_apart(order: str) -> Program:
    """The same as XLA makes it: no concatenation, and copies of h (h) and of g where the slices were."""
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h, g = schedule.op(entry, "negate", x, tag=1), schedule.op(entry, "abs", x, tag=2)
    made = {
        letter: schedule.kernel(entry, h, tag=3) if letter == "k" else schedule.op(entry, "copy", h, tag=11)
        for letter in order
    }
    of_g = schedule.op(entry, "copy", g, tag=12)
    schedule.place(x, h, g, of_g, *made.values())
    schedule.op(entry, "tuple", made["h"], of_g, shape=PAIR)
    return schedule


@pytest.mark.parametrize(("order", "expected"), [("kh", "latent"), ("hk", "stale")])
def test_a_piece_of_a_concatenation_depends_on_its_own_operand(order: str, expected: str) -> None:
    assert verdicts(judge(write_joined(), write_apart(order), "of h", "of g")) == [expected, "fresh"]


@pytest.mark.parametrize(("order", "expected"), [("kjkc", "latent"), ("kjck", "stale")])
def test_a_concatenation_that_is_overwritten_has_no_pieces(order: str, expected: str) -> None:
    context = judge(write_joined("kjkc"), write_joined(order), "of h", "of g")
    assert verdicts(context) == [expected, expected]
