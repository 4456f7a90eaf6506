"""LD008 and LD009 on schedules that XLA does not make here: a repeated call, another owner's bytes."""

import pytest

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding
from ligerdiag.rules.registry import check_all
from tests.analysis.by_hand import Program, judge, verdicts
from tests.hlo.building import array, tuple_of

PAIR = tuple_of(array(4), array(4))


def findings_of(context: Context, rule: str) -> list[Finding]:
    return [finding for finding in check_all(context).findings if finding.rule == rule]


def write_one_call(target: str = "double") -> Program:
    """h = -x, and the kernel on h."""
    program = Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    program.kernel(entry, h, tag=2, target=target)
    return program


@pytest.mark.parametrize(("target", "found"), [("double", 1), ("opaque", 0)])
def test_a_call_that_the_schedule_repeats_is_a_double_write(target: str, found: int) -> None:
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    first = schedule.kernel(entry, h, tag=2, target=target)
    second = schedule.kernel(entry, h, tag=2, target=target)
    schedule.place(x, h, first, second)
    findings = findings_of(judge(write_one_call(target), schedule, "sums"), "LD008")
    assert [finding.message.split(":")[0] for finding in findings] == ["`double` is called once and runs twice"] * found


def test_a_call_in_each_branch_of_a_conditional_runs_once() -> None:
    schedule = Program()
    branches = []
    for name in ("one", "other"):
        branch = schedule.computation(name)
        argument = schedule.op(branch, "parameter")
        schedule.place(schedule.kernel(branch, argument, tag=2))
        branches.append(branch)
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    schedule.place(x, h)
    schedule.op(entry, "conditional", x, h, h, calls=branches)
    assert findings_of(judge(write_one_call(), schedule, "sums"), "LD008") == []


def write_two_calls(*, on_one_value: bool) -> Program:
    """The kernel twice: on the same -x, or on two values -x."""
    program = Program()
    entry = program.computation("entry")
    x = program.op(entry, "parameter")
    h = program.op(entry, "negate", x, tag=1)
    first = program.kernel(entry, h, tag=2)
    other = h if on_one_value else program.op(entry, "negate", x, tag=3)
    second = program.kernel(entry, other, tag=4)
    program.op(entry, "tuple", first, second, shape=PAIR)
    return program


@pytest.mark.parametrize(("on_one_value", "verdict", "found"), [(True, "stale", 1), (False, "fresh", 0)])
def test_merged_calls_matter_if_one_value_should_be_overwritten_twice(
    on_one_value: bool, verdict: str, found: int
) -> None:
    schedule = Program()
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    call = schedule.kernel(entry, h, tag=2)
    schedule.place(x, h, call)
    schedule.op(entry, "tuple", call, call, shape=PAIR)
    context = judge(write_two_calls(on_one_value=on_one_value), schedule, "first", "second")
    assert verdicts(context) == ["fresh", verdict]
    assert len(findings_of(context, "LD008")) == found
    assert findings_of(context, "LD007") == []  # the call runs, merged with its twin


def test_three_merged_calls_are_counted_as_three() -> None:
    program, schedule = Program(), Program()
    entry = program.computation("entry")
    h = program.op(entry, "negate", program.op(entry, "parameter"), tag=1)
    calls = [program.kernel(entry, h, tag=tag) for tag in (2, 3, 4)]
    program.op(entry, "tuple", *calls, shape=tuple_of(array(4), array(4), array(4)))
    entry = schedule.computation("entry")
    x = schedule.op(entry, "parameter")
    h = schedule.op(entry, "negate", x, tag=1)
    call = schedule.kernel(entry, h, tag=2)
    schedule.place(x, h, call)
    schedule.op(entry, "tuple", call, call, call, shape=tuple_of(array(4), array(4), array(4)))
    messages = {one.message for one in findings_of(judge(program, schedule, "one", "two", "three"), "LD008")}
    assert messages == {"`double` is called 3 times on one value and runs once: XLA merged the 3 equal calls"}


def judge_write_to_parameter(*, target: str = "double", donated: bool = False, constant: bool = False) -> Context:
    """The kernel directly on the entry parameter, or on a constant."""
    programs = Program(), Program()
    for program in programs:
        entry = program.computation("entry")
        value = program.op(entry, "constant" if constant else "parameter")
        call = program.kernel(entry, value, tag=2, target=target)
    schedule = programs[1]
    schedule.place(value, call)
    allocation = schedule.proto.buffer_assignment.buffer_allocations[0]
    allocation.is_constant, allocation.is_entry_computation_parameter = constant, not constant
    if donated:
        schedule.proto.hlo_module.input_output_alias.entries.add(parameter_number=0)
    return judge(programs[0], schedule, "sums")


def test_an_argument_without_a_name_is_reported_by_its_number() -> None:
    (finding,) = findings_of(judge_write_to_parameter(), "LD009")
    assert finding.message == "`double` overwrites the caller's argument `0`, which is not donated"


def test_a_constant_is_distinguished_from_an_argument() -> None:
    (finding,) = findings_of(judge_write_to_parameter(constant=True), "LD009")
    assert finding.message.startswith("`double` overwrites a constant")


@pytest.mark.parametrize("how", [{"donated": True}, {"target": "sum"}, {"target": "opaque"}])
def test_a_donated_argument_a_reader_and_an_unknown_kernel_are_not_reported(how: dict[str, bool]) -> None:
    assert findings_of(judge_write_to_parameter(**how), "LD009") == []
