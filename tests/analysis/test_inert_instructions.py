"""What is passed over must not change what is found."""

import pytest

from ligerdiag.analysis.evaluation.labels import InertInstructions
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.by_hand import Program, judge, verdicts
from tests.analysis.conftest import Programs, inspect_all
from tests.hlo.building import array, find, tuple_of

PAIR = tuple_of(array(4), array(4))


@pytest.mark.parametrize("file", ["straight", "loops", "calls", "meshes"])
def test_verdicts_are_those_of_passing_over_nothing(
    file: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: Programs = request.getfixturevalue(file)
    passed = inspect_all(programs)
    monkeypatch.setattr(InertInstructions, "is_inert", lambda *_: False)
    followed = inspect_all(programs)
    assert passed == followed


def test_an_inert_definition_takes_the_place_of_what_stood_there() -> None:
    """h, which the kernel overwrites, and later z share their bytes."""
    program, schedule = Program(), Program()
    for one in (program, schedule):
        entry = one.computation("entry")
        x, w = one.op(entry, "parameter"), one.op(entry, "parameter", parameter_number=1)
        h = one.op(entry, "negate", x, tag=1)
        sums = one.kernel(entry, h, tag=2)
        z = one.op(entry, "negate", w, tag=3)
        y = one.op(entry, "abs", z, tag=4)
        one.op(entry, "tuple", sums, y, shape=PAIR)
        one.place(x, w, sums, y)
        one.define(h, offset=0)
        one.define(z, offset=0)
    assert verdicts(judge(program, schedule, "sums", "y")) == ["fresh", "fresh"]


def write_pair(*, fused: bool) -> tuple[Program, Program]:
    """y = |h| after the kernel on h in the program; |w| in the schedule, perhaps in a fusion."""
    program, schedule = Program(), Program()
    inner = schedule.computation("fused") if fused else None
    if inner is not None:
        inner.is_fusion_computation = True
        schedule.op(inner, "abs", schedule.op(inner, "parameter"), tag=3)
    for one in (program, schedule):
        entry = one.computation("entry")
        x, w = one.op(entry, "parameter"), one.op(entry, "parameter", parameter_number=1)
        h = one.op(entry, "negate", x, tag=1)
        sums = one.kernel(entry, h, tag=2)
        if one is program:
            y = one.op(entry, "abs", h, tag=3)
        elif inner is not None:
            y = one.op(entry, "fusion", w, calls=[inner])
        else:
            y = one.op(entry, "abs", w, tag=3)
        one.op(entry, "tuple", sums, y, shape=PAIR)
        one.place(x, w, h, sums, y)
    return program, schedule


@pytest.mark.parametrize("fused", [False, True])
def test_an_operation_that_should_depend_on_something_is_seen_though_it_is_inert(*, fused: bool) -> None:
    context = judge(*write_pair(fused=fused), "sums", "y")
    assert verdicts(context) == ["fresh", "stale"]
    assert [finding.reader.opcode for finding in context.verdicts.stale] == ["fusion" if fused else "abs"]


def test_a_kernel_in_a_fusion_starts_something_whatever_it_reads() -> None:
    program, schedule = Program(), Program()
    inner = schedule.computation("fused")
    inner.is_fusion_computation = True
    schedule.kernel(inner, schedule.op(inner, "parameter"), tag=2)
    for one in (program, schedule):
        entry = one.computation("entry")
        x = one.op(entry, "parameter")
        h = one.op(entry, "copy", x)
        sums = one.kernel(entry, h, tag=2) if one is program else one.op(entry, "fusion", h, calls=[inner])
        y = one.op(entry, "abs", h, tag=3)
        one.op(entry, "tuple", sums, y, shape=PAIR)
        one.place(x, h, sums, y)
    assert verdicts(judge(program, schedule, "sums", "y")) == ["fresh", "latent"]


def test_what_a_fusion_holds_further_in_makes_it_loud() -> None:
    """entry -> outer -> inner, where the operation with tag 1 stands."""
    program = Program()
    inner, outer = program.computation("inner"), program.computation("outer")
    operation = program.op(inner, "abs", program.op(inner, "parameter"), tag=1)
    program.op(outer, "fusion", program.op(outer, "parameter"), calls=[inner])
    entry = program.computation("entry")
    fusion = program.op(entry, "fusion", program.op(entry, "parameter"), calls=[outer])
    program.schedule(entry)
    module, _ = parse_hlo(program.bytes())
    outermost = find(module, fusion)

    def is_inert_if(*started: int, wanted: frozenset[tuple[int, ...]] = frozenset()) -> bool:
        return InertInstructions(module, frozenset(started), wanted).is_inert(outermost)

    assert is_inert_if()
    assert not is_inert_if(operation.id)
    assert not is_inert_if(fusion.id)
    assert not is_inert_if(wanted=frozenset({(1,)}))
