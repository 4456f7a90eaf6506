"""Findings that rules make from numbers: pure functions of a record, here hand-written."""

from dataclasses import replace
from typing import Any

import pytest

from ligerdiag.model.findings import (
    Attribution,
    DeviceOutput,
    DeviceRun,
    Finding,
    LaunchNumbers,
    MemoryOperation,
    OutputNumbers,
    OutsideAccess,
    ProgramMeeting,
    Replay,
    ReplayState,
    Severity,
    SourceLine,
    UnwrittenRead,
    Verdict,
)
from ligerdiag.rules.registry import RULES, check_measured, find_undecided_rules, get_rule
from ligerdiag.rules.rule import Measured
from ligerdiag.rules.schedules.ld009_caller_clobbered import spell_argument

LOSSY_PATTERN = Finding(rule="LD012", severity=Severity.WARNING, message="rounds", outputs=("a", "b"))
STALE = Finding(rule="LD001", severity=Severity.ERROR, message="stale", outputs=("a",))
ARGUMENT = Finding(
    rule="LD009", severity=Severity.ERROR, message="`k` overwrites the caller's argument `x`, which is not donated"
)
CONSTANT = Finding(rule="LD009", severity=Severity.ERROR, message="`k` overwrites a constant: every later execution")


def measure(
    *findings: Finding, device: DeviceRun | None = None, a: Verdict = Verdict.FRESH, **replay: Any
) -> tuple[Finding, ...]:
    """Returns the findings of a program with outputs `a` and `b`, replayed with this record."""
    return check_measured(
        Measured(
            outputs={"a": a, "b": Verdict.FRESH},
            findings=findings,
            replay=Replay(**{"state": ReplayState.DONE, **replay}),
            device=device,
        )
    ).findings


def make_numbers(attribution: Attribution = Attribution.FRESH, error: float = 1e-7) -> OutputNumbers:
    return OutputNumbers(attribution=attribution, error=error, stale_error=1.0, distance=1.0, tolerance=1e-4)


def make_device_output(unsteady: float) -> DeviceOutput:
    return DeviceOutput(errors=(0.0,), attribution=Attribution.FRESH, tolerance=1e-4, unsteady=unsteady)


def launch(**numbers: Any) -> LaunchNumbers:
    return LaunchNumbers(kernel="k", instruction="call.1", launches=3, **numbers)


MEETING = ProgramMeeting(
    buffer=2,
    other_buffer=0,
    writer=3,
    other=4,
    other_writes=False,
    first_byte=96,
    bytes=32,
    line=SourceLine(file="k.py", line=7),
    other_line=SourceLine(file="k.py", line=6),
)


OLD_READ = UnwrittenRead(output=0, bytes=4, size=8, is_atomic=True, program=0, first_byte=0, line=MEETING.line)


def make_outside(**fields: Any) -> OutsideAccess:
    given = {"kind": MemoryOperation.STORE, "buffer": 1, "size": 400, "first_byte": 400, "width": 4, "elements": 28}
    return OutsideAccess(**{**given, "program": 1, "line": SourceLine(file="k.py", line=7), **fields})


def test_a_finding_that_numbers_cannot_affect_is_unchanged() -> None:
    assert measure(STALE) == (STALE,)


def test_findings_come_in_the_order_of_the_rules() -> None:
    found = measure(LOSSY_PATTERN, ARGUMENT, STALE, launches=(launch(racing={0: 0.5}),))
    assert [finding.rule for finding in found] == ["LD001", "LD009", "LD011", "LD012"]


@pytest.mark.parametrize(
    "replay",
    [
        None,
        Replay(state=ReplayState.TOO_LARGE),
        Replay(state=ReplayState.NOT_COVERED),
        Replay(state=ReplayState.FAILED),
    ],
)
def test_without_numbers_only_the_static_findings_remain(replay: Replay | None) -> None:
    findings = (STALE, ARGUMENT, LOSSY_PATTERN)
    measured = Measured(outputs={}, findings=findings, replay=replay, device=None)
    assert check_measured(measured).findings == findings


def test_a_clobbered_argument_quotes_how_much_of_it_changed() -> None:
    (finding,) = measure(ARGUMENT, changed_inputs={"x": 0.75})
    assert replace(finding, evidence=()) == ARGUMENT
    assert finding.evidence == (("replay", "75% of the elements of `x` differ after the program has run"),)


@pytest.mark.parametrize(
    ("path", "name"),
    [("x", "x"), ("arrays[1]", "arrays.1"), ("state[0]['w']", "state.0.w"), ("model.layers[2]", "model.layers.2")],
)
def test_an_argument_has_the_same_name_as_in_replay(path: str, name: str) -> None:
    assert spell_argument(path) == name


def test_a_changed_argument_without_a_static_finding_gets_its_own() -> None:
    first, second = measure(ARGUMENT, changed_inputs={"y": 1.0})
    assert first == ARGUMENT
    assert second.rule == "LD009"
    assert "`y`" in second.message


def test_a_clobbered_constant_quotes_the_second_execution() -> None:
    (finding,) = measure(CONSTANT, second_run={"a": 0.5})
    assert finding.evidence == (
        ("replay", "a second execution on the same constants differs from the first: `a` by 5.0e-01"),
    )


def test_an_unexplained_difference_of_the_second_execution_is_a_finding_that_names_the_outputs() -> None:
    (finding,) = measure(second_run={"a": 0.5})
    assert (finding.rule, finding.outputs) == ("LD009", ("a",))


def test_a_kernel_whose_result_depends_on_sharing_is_not_safe_in_place() -> None:
    (finding,) = measure(launches=(launch(racing={2: 0.5}), launch(racing={1: 1e-7})))
    assert (finding.rule, finding.kernel, finding.operand, finding.instructions) == ("LD011", "k", 2, ("call.1",))
    assert "output" not in finding.message  # an operand that the kernel itself overwrites shares bytes with no output
    assert "differ by 5.0e-01" in finding.evidence[0][1]


def test_a_measured_race_joins_the_proven_one_of_the_same_call_and_operand() -> None:
    shown = Finding(
        rule="LD011",
        severity=Severity.ERROR,
        message="`k` is not safe in place",
        kernel="k",
        operand=2,
        instructions=("call.1",),
        evidence=(("kernel", "shown"),),
    )
    (finding,) = measure(shown, launches=(launch(racing={2: 0.5}),))
    assert replace(finding, evidence=shown.evidence) == shown
    assert [label for label, _ in finding.evidence] == ["kernel", "replay"]
    assert "differ by 5.0e-01" in finding.evidence[1][1]
    first, second = measure(shown, launches=(launch(racing={1: 0.5}, checked=2),))
    assert (first.operand, second.operand) == (2, 1)
    assert "in reverse order or all at once gives the same results, in 2 of 3 launches" in first.evidence[1][1]
    assert measure(shown, launches=(launch(),)) == (shown,)


def test_an_output_that_is_not_written_completely_is_named_with_its_count() -> None:
    (finding,) = measure(launches=(launch(unwritten={1: (3, 8)}), launch(unwritten={0: (0, 8)})))
    assert finding.rule == "LD013"
    assert finding.message == "`k` leaves 3 of 8 elements of its output 1 unwritten"


def test_a_count_joins_the_proven_finding() -> None:
    shown = Finding(
        rule="LD013", severity=Severity.WARNING, message="`k` leaves elements of its output 1 unwritten", kernel="k"
    )
    (finding,) = measure(shown, launches=(launch(unwritten={1: (3, 8)}), launch(unwritten={1: (2, 8)})))
    assert finding.message == "`k` leaves 3 of 8 elements of its output 1 unwritten"
    assert finding.evidence == (("replay", "%call.1, worst of 3 launches"),)
    first, second = measure(shown, launches=(launch(unwritten={0: (3, 8)}),))
    assert first == shown
    assert second.message == "`k` leaves 3 of 8 elements of its output 0 unwritten"


def test_an_output_that_is_lossy_against_program_order_is_a_finding_without_any_pattern() -> None:
    (finding,) = measure(outputs={"a": make_numbers(Attribution.LOSSY, 0.25), "b": make_numbers()})
    assert (finding.rule, finding.outputs) == ("LD012", ("a",))
    assert finding.evidence == (("replay", "`a` differs by 2.5e-01 from program order; rounding explains 1.0e-04"),)


@pytest.mark.parametrize(("verdict", "found"), [("stale", 0), ("clobbered", 0), ("latent", 1), ("unknown", 1)])
def test_an_output_that_misses_a_write_is_not_called_rounded(verdict: str, found: int) -> None:
    """A sum with one stale term among many looks lossy."""
    findings = measure(a=Verdict(verdict), outputs={"a": make_numbers(Attribution.LOSSY, 0.25), "b": make_numbers()})
    assert [finding.rule for finding in findings] == ["LD012"] * found


def test_the_pattern_is_narrowed_to_the_lossy_outputs_with_their_figures() -> None:
    (finding,) = measure(
        LOSSY_PATTERN,
        outputs={"a": make_numbers(), "b": make_numbers()},
        reference={"a": 0.25, "b": 1e-6},
        reference_tolerance={"a": 1e-4, "b": 1e-4},
    )
    assert (finding.rule, finding.outputs) == ("LD012", ("a",))
    assert finding.evidence[-1] == (
        "replay",
        "`a` in program order differs by 2.5e-01 from the reference; rounding explains 1.0e-04",
    )


def test_the_pattern_is_dropped_if_the_reference_clears_every_output_it_reaches() -> None:
    assert measure(LOSSY_PATTERN, reference={"a": 1e-6, "b": 1e-6}, reference_tolerance={"a": 1e-4, "b": 1e-4}) == ()


@pytest.mark.parametrize(("error", "rules"), [(1e-2, ["LD012"]), (1.0, ["LD012", "LD016"])])
def test_the_pattern_quotes_the_precision_that_program_order_loses_to_it(error: float, rules: list[str]) -> None:
    numbers = {"a": make_numbers(Attribution.LOSSY), "b": make_numbers()}
    found = measure(LOSSY_PATTERN, outputs=numbers, rounded={"a": error, "b": 1e-6})
    assert sorted(finding.rule for finding in found) == rules
    for finding in found:
        assert finding.outputs == ("a",)
        assert "without the addition and the subtraction" in finding.evidence[-1][1]


def test_a_loss_that_is_small_on_these_arguments_stays_a_finding_with_a_note() -> None:
    numbers = {"a": make_numbers(), "b": make_numbers()}
    (finding,) = measure(LOSSY_PATTERN, outputs=numbers, rounded={"a": 1e-7, "b": 2e-6})
    assert (finding.outputs, finding.severity) == (LOSSY_PATTERN.outputs, LOSSY_PATTERN.severity)
    assert finding.evidence[-1] == (
        "replay",
        "relative error 2.0e-06 compared with the program without this addition and subtraction",
    )


@pytest.mark.parametrize("reference", [{}, {"a": 1e-6}, {"a": 1e-6, "b": float("nan")}])
def test_the_pattern_stays_until_every_output_has_been_compared_with_a_reference(reference: dict[str, float]) -> None:
    """Program order executes the addition as well, so agreement with it does not show that the addition is lossless."""
    numbers = {"a": make_numbers(), "b": make_numbers()}
    tolerances = {"a": 1e-4, "b": 1e-4}
    found = measure(LOSSY_PATTERN, outputs=numbers, reference=reference, reference_tolerance=tolerances)
    assert found == (LOSSY_PATTERN,)


def test_an_output_far_from_the_reference_is_wrong_and_not_rounded() -> None:
    found = measure(LOSSY_PATTERN, reference={"a": 0.75, "b": 1e-6}, reference_tolerance={"a": 1e-4, "b": 1e-4})
    assert {finding.rule: finding.outputs for finding in found if finding is not LOSSY_PATTERN} == {"LD016": ("a",)}


def test_an_inexact_output_that_no_workaround_reaches_is_wrong_however_small_its_error() -> None:
    (finding,) = measure(
        outputs={"a": make_numbers(Attribution.LOSSY), "b": make_numbers()},
        reference={"a": 0.25, "b": 1e-6},
        reference_tolerance={"a": 1e-4, "b": 1e-4},
    )
    assert (finding.rule, finding.outputs) == ("LD016", ("a",))
    assert finding.evidence == (("replay", "`a` differs by 2.5e-01 from the reference; rounding explains 1.0e-04"),)


def test_an_output_that_the_workaround_rounds_is_not_called_wrong_too() -> None:
    found = measure(LOSSY_PATTERN, reference={"a": 0.25, "b": 0.25}, reference_tolerance={"a": 1e-4, "b": 1e-4})
    assert [finding.rule for finding in found] == ["LD012"]


def test_only_device_runs_that_differ_are_a_finding() -> None:
    outputs = {"a": make_device_output(0.0), "b": make_device_output(1e-3)}
    device = DeviceRun(device="NVIDIA H200", count=1, runs=5, outputs=outputs)
    (finding,) = measure(device=device)
    assert (finding.rule, finding.outputs) == ("LD017", ("b",))
    assert finding.evidence == (("device", "`b` differs by up to 1.0e-03 between 5 runs on the same inputs"),)


OF_OPTIONS = {"LD015", "LD033", "LD034"}
"""Rules that need a baseline or a budget."""


def test_rules_that_need_numbers_are_undecided_without_them() -> None:
    assert find_undecided_rules(replayed=False, ran=False) == {
        *("LD011", "LD012", "LD013", "LD016", "LD017", "LD019", "LD020"),
        *OF_OPTIONS,
    }
    assert find_undecided_rules(replayed=True, ran=False) == {*OF_OPTIONS, "LD017"}


def test_a_drift_and_a_budget_are_never_decided_because_there_is_always_another_option() -> None:
    assert find_undecided_rules(replayed=True, ran=True) == OF_OPTIONS


def test_every_rule_that_numbers_decide_has_a_measurement() -> None:
    unsettled = find_undecided_rules(replayed=False, ran=False)
    assert all(get_rule(id).measure is not None for id in unsettled)


def test_every_finding_is_one_lower_case_line_with_its_rule_s_severity() -> None:
    device = DeviceRun(device="H200", count=1, runs=2, outputs={"a": make_device_output(1.0)})
    found = measure(
        LOSSY_PATTERN,
        device=device,
        outputs={"a": make_numbers(Attribution.LOSSY, 0.25), "b": make_numbers()},
        reference={"a": 1e-6, "b": 1.0},
        changed_inputs={"x": 0.5},
        second_run={"a": 0.5},
        launches=(
            launch(racing={0: 0.5}, unwritten={0: (1, 2)}, outside=(make_outside(),)),
            launch(order_difference=0.5, meetings=(MEETING,), old_reads=(OLD_READ,)),
        ),
    )
    assert {finding.rule for finding in found} == {rule.id for rule in RULES if rule.measure is not None} - OF_OPTIONS
    for finding in found:
        assert finding.severity is get_rule(finding.rule).severity
        assert finding.evidence
        if finding.help:
            assert "\n" not in finding.message + finding.help
            assert not finding.message.endswith(".")
            assert finding.message[0] == "`" or finding.message[0].islower()


def test_a_result_that_depends_on_the_grid_s_order_is_reported_at_the_writing_line() -> None:
    (finding,) = measure(launches=(launch(operands=1, order_difference=0.5, meetings=(MEETING,)),))
    assert (finding.rule, finding.kernel, finding.source) == ("LD019", "k", MEETING.line)
    assert finding.evidence == (
        ("write", "grid program 3 writes 32 bytes of output 1 of %call.1, starting at byte 96 (k.py:7)"),
        ("meets", "grid program 4 reads them, too (k.py:6)"),
        ("replay", "the results of %call.1 differ by 5.0e-01 when its programs run from the last to the first"),
    )


def test_an_order_that_affects_only_rounding_is_not_reported() -> None:
    assert measure(launches=(launch(order_difference=1e-6, meetings=(MEETING,)),)) == ()


def test_a_race_in_place_and_a_dependence_on_the_order_elsewhere_are_both_reported() -> None:
    (racing,) = measure(launches=(launch(racing={0: 0.5}),))
    both = measure(launches=(launch(racing={0: 0.5}, order_difference=0.5, meetings=(MEETING,)),))
    assert racing.rule == "LD011"
    assert [finding.rule for finding in both] == ["LD011", "LD019"]


def test_an_unknown_place_is_not_called_empty() -> None:
    (finding,) = measure(launches=(launch(outside=(make_outside(hit=None),)),))
    assert "it is unknown whose bytes these are" in finding.evidence[-1][1]
    (finding,) = measure(launches=(launch(outside=(make_outside(hit=""),)),))
    assert "belong to no value" in finding.evidence[-1][1]


@pytest.mark.parametrize(
    ("access", "message", "evidence"),
    [
        (
            make_outside(hit="fusion.2"),
            "`k` writes outside output 0",
            (
                "grid program 1 of %call.1 does so first, at index 100 of 100 elements of 4 bytes; 28 elements in all",
                "in XLA's buffer assignment these bytes belong to %fusion.2",
            ),
        ),
        (
            make_outside(kind=MemoryOperation.LOAD, buffer=0, first_byte=-6, elements=1, hit="call.1"),
            "`k` reads outside operand 0",
            (
                "grid program 1 of %call.1 does so first, at byte -6; 1 element in all",
                "in XLA's buffer assignment these bytes belong to its own output",
            ),
        ),
        (
            make_outside(kind=MemoryOperation.ATOMIC, buffer=None, size=0, first_byte=0),
            "`k` updates memory of no operand or output",
            ("grid program 1 of %call.1 does so first, at byte 0; 28 elements in all",),
        ),
    ],
)
def test_an_access_outside_its_buffer_is_reported_with_the_value_it_hits(
    access: OutsideAccess, message: str, evidence: tuple[str, ...]
) -> None:
    (finding,) = measure(launches=(launch(operands=1, outside=(access,)),))
    assert (finding.rule, finding.message, finding.source) == ("LD020", message, access.line)
    assert tuple(text for _, text in finding.evidence) == evidence
    assert finding.operand == (0 if access.buffer == 0 else None)


LINES = {"a": SourceLine(file="step.py", line=4), "b": SourceLine(file="step.py", line=7)}


def measure_with_lines(**replay: Any) -> tuple[Finding, ...]:
    measured = Measured(
        outputs={"a": Verdict.FRESH, "b": Verdict.FRESH},
        findings=(),
        replay=Replay(**{"state": ReplayState.DONE, **replay}),
        device=None,
        output_lines=LINES,
    )
    return check_measured(measured).findings


def test_an_output_that_differs_from_the_reference_has_the_line_that_computes_it() -> None:
    (found,) = measure_with_lines(reference={"b": 0.5})
    assert found.rule == "LD016"
    assert found.source == LINES["b"]


def test_several_outputs_that_differ_have_the_line_of_the_first_and_each_names_its_own() -> None:
    (found,) = measure_with_lines(reference={"a": 0.5, "b": 0.5})
    assert found.source == LINES["a"]
    assert [sentence.rpartition(" (")[2] for _, sentence in found.evidence] == ["step.py:4)", "step.py:7)"]
