"""Which reads nothing orders with a write, on schedules by hand."""

import pytest

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evaluation.label_memory import LuckyRead
from tests.analysis.by_hand import Program, judge, verdicts
from tests.hlo.building import array, tuple_of

PAIR = tuple_of(array(4), array(4))
ASYNC = tuple_of(tuple_of(array(4)), array(4))


def write_twins() -> Program:
    """h = -x; the kernel on h; y = |-x|, of another computation of the same value."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    sums = program.kernel(entry, program.op(entry, "negate", x, tag=1), tag=2)
    y = program.op(entry, "abs", program.op(entry, "negate", x, tag=3), tag=4)
    program.op(entry, "tuple", sums, y, shape=PAIR)
    return program


def write_schedule(order: str) -> Program:
    """One negation for both, and what the letters say: k(ernel), y = |h|, c(opy of h, which y reads then), e(dge from
    what was last to what comes next), u(pdate of h in place, which y reads then), s(tart and) d(one) of y.
    """
    schedule = Program()
    callee = schedule.computation("callee")
    if "s" in order:
        schedule.define(schedule.op(callee, "abs", schedule.op(callee, "parameter"), tag=4))
    else:
        schedule.op(callee, "parameter")
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = read = last = schedule.op(entry, "negate", x, tag=1)
    schedule.place(x)
    schedule.define(h, offset=0)
    made, edge = {}, False
    for letter in order:
        match letter:
            case "e":
                edge = True
                continue
            case "c":
                now = read = schedule.op(entry, "copy", h)
                schedule.place(now)
            case "u":
                now = read = schedule.op(entry, "dynamic-update-slice", h, x)
                schedule.define(now, offset=0 if "ku" in order else 16)
            case "k":
                now = made["k"] = schedule.kernel(entry, h, tag=2)
                schedule.place(now)
            case "s":
                now = made["s"] = schedule.op(entry, "async-start", read, shape=ASYNC, calls=[callee])
            case "d":
                now = made["y"] = schedule.op(entry, "async-done", made["s"])
            case _:
                now = made["y"] = schedule.op(entry, "abs", read, tag=4)
                schedule.place(now)
        if edge:
            now.control_predecessor_ids.append(last.id)
        edge, last = False, now
    schedule.op(entry, "tuple", made["k"], made["y"], shape=PAIR)
    return schedule


def list_lucky(context: Context) -> list[tuple[str, bool]]:
    """Opcode of the reader, and whether it comes after the write."""
    names = {one.id: one.opcode for one in context.optimized.instructions}
    found = [lucky for one in context.verdicts.outputs.values() for cause in one.causes for lucky in cause.lucky]
    assert all(isinstance(one, LuckyRead) for one in found)
    return [(names[one.reader], one.after) for one in found]


@pytest.mark.parametrize(
    ("order", "expected", "lucky"),
    [
        ("yk", "latent", [("abs", False)]),  # it comes first in this schedule, and nothing makes it
        ("yek", "fresh", []),
        ("ky", "clobbered", []),
        ("key", "clobbered", []),
        ("cyk", "latent", [("copy", False)]),  # what reads the copy is safe; the copy itself is not
        ("cekey", "fresh", []),
        ("ceky", "fresh", []),
        ("cky", "latent", [("copy", False)]),
        ("sdk", "latent", [("abs", False)]),
        ("sdek", "fresh", []),
    ],
)
def test_a_twins_reader_is_right_by_luck_or_by_force(order: str, expected: str, lucky: list[tuple[str, bool]]) -> None:
    context = judge(write_twins(), write_schedule(order), "sums", "y")
    assert verdicts(context) == ["fresh", expected]
    assert (list_lucky(context) if expected == "latent" else []) == lucky


def test_an_update_in_place_reads_the_value_and_its_result_is_another_one() -> None:
    # in place where it comes last; where the kernel comes behind it, XLA copies h first
    for order, expected in (("uyk", "latent"), ("uyek", "fresh"), ("kuy", "clobbered")):
        context = judge(write_twins(), write_schedule(order), "sums", "y")
        assert verdicts(context) == ["fresh", expected]
        assert expected != "latent" or list_lucky(context) == [("dynamic-update-slice", False)]


def test_a_start_has_read_when_its_done_is_there() -> None:
    """An edge from the start to the kernel keeps the start before it, and not what it reads in flight."""
    context = judge(write_twins(), write_schedule("sekd"), "sums", "y")
    assert verdicts(context)[1] == "unknown"  # in flight while the kernel runs: see `races`


def write_two_kernels(*, order: str = "", target: str = "fill") -> Program:
    """Two kernels overwrite h = -x, and y reads it behind what the second returns. order: of the schedule, else of the
    program; `e` for an edge from the first to the second."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h = program.op(entry, "negate", x, tag=1)
    if order:
        program.place(x, h)
    first = program.kernel(entry, h, tag=2, target=target)
    second = program.kernel(entry, h, tag=3, target=target)
    if "e" in order:
        second.control_predecessor_ids.append(first.id)
    both = program.op(entry, "add", first, second, tag=4)
    y = program.op(entry, "multiply", h, both, tag=5)
    if order:
        program.place(first, second, both, y)
    program.op(entry, "tuple", both, y, shape=PAIR)
    return program


@pytest.mark.parametrize(("order", "expected"), [("kk", "latent"), ("kek", "fresh")])
def test_which_of_two_kernels_comes_last_is_luck_even_if_they_only_write(order: str, expected: str) -> None:
    context = judge(write_two_kernels(), write_two_kernels(order=order), "sums", "y")
    assert verdicts(context)[1] == expected
