"""LD033 and LD034 from records by hand: when they fire, and what they say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.api.checking import find_recorded, list_baseline_notes, render_record
from ligerdiag.cli.exit_codes import FailOn, compute_exit_code
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.model.memory import CopyCause, MemoryUse
from ligerdiag.model.memory_limits import MemoryBudgets, compute_figures
from ligerdiag.model.schedule_view import ScheduleFacts
from ligerdiag.report.baseline import parse_baseline
from ligerdiag.report.status import conclude, list_unexcused
from ligerdiag.rules.registry import check_measured
from ligerdiag.rules.rule import Measured
from ligerdiag.run_options import CheckOptions
from tests.hazards.memory_by_hand import MIB, make_copy, make_line, make_memory
from tests.report.samples import make_judged, make_report


def measure(use: MemoryUse | None, /, *, before: MemoryUse | None = None, **budgets: int) -> tuple[Finding, ...]:
    """Returns the findings, in a baseline of `before` and with the budgets."""

    def make_facts(one: MemoryUse | None) -> ScheduleFacts:
        return ScheduleFacts(memory=None if one is None else compute_figures(one))

    return check_measured(
        Measured(
            outputs={},
            findings=(),
            replay=None,
            device=None,
            facts=make_facts(use),
            recorded=make_facts(before),
            memory=use,
            budgets=MemoryBudgets(**budgets),
        )
    ).findings


def test_without_a_budget_any_memory_is_allowed() -> None:
    assert measure(make_memory(make_copy())) == ()


def test_a_budget_that_is_just_met_is_no_finding() -> None:
    assert measure(make_memory(), memory=150 * MIB) == ()
    assert measure(make_memory(constants=MIB), memory=150 * MIB)
    assert measure(make_memory(make_copy()), copies=64 * MIB) == ()


def test_a_finding_about_memory_says_how_much_and_what_is_largest() -> None:
    (finding,) = measure(make_memory(), memory=100 * MIB)
    assert (finding.rule, finding.severity) == ("LD033", Severity.ERROR)
    assert finding.message == (
        "one call needs 150.0 MiB, 50.0 MiB more than the memory budget allows;"
        " the largest at the peak is argument `cache` f32[4096,3840], 60.0 MiB (/home/me/train.py:9)"
    )
    assert finding.source == make_line(9)
    assert dict(finding.evidence)["needs"] == (
        "arguments 100.0 MiB, outputs 80.0 MiB (60.0 MiB of them in donated arguments), temporaries 30.0 MiB"
    )


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"aliased": 0}, "donate the arguments"),
        ({"temporaries": 400 * MIB}, "jax.checkpoint"),
        ({"arguments": 400 * MIB}, "shard the largest arguments"),
    ],
)
def test_the_remedy_is_for_the_part_that_can_save_enough(changes: dict[str, int], remedy: str) -> None:
    (finding,) = measure(make_memory(**changes), memory=140 * MIB)
    assert remedy in finding.help


def test_a_finding_about_copies_counts_the_iterations_of_loops() -> None:
    (finding,) = measure(make_memory(make_copy(MIB, trips=64), make_copy(MIB, line=None)), copies=0)
    assert finding.message == (
        "one call copies 65.0 MiB, 65.0 MiB more than the copy budget allows; the largest copy is"
        " 1.0 MiB from temporary memory to argument `cache`, 64 times, not donated (/home/me/train.py:41)"
    )
    assert finding.source == make_line(41)
    (finding,) = measure(make_memory(make_copy(MIB, trips=None)), copies=0)
    assert finding.message.startswith("one call copies at least 1.0 MiB, 1.0 MiB more")
    assert "in a loop of unknown length" in finding.message
    (finding,) = measure(make_memory(make_copy(MIB, in_branch=True)), copies=0)
    assert finding.message.startswith("one call copies up to 1.0 MiB, 1.0 MiB more")
    assert "to argument `cache`, if its branch runs, not donated" in finding.message


def test_a_copy_that_the_program_needs_gets_another_remedy() -> None:
    (finding,) = measure(make_memory(make_copy(is_needed=True)), copies=0)
    assert "raise the budget" in finding.help


def test_memory_that_is_unknown_exceeds_no_budget() -> None:
    assert measure(None, memory=1, copies=0) == ()


def test_without_memory_in_the_baseline_nothing_drifts() -> None:
    assert measure(make_memory(make_copy())) == ()
    assert measure(None, before=make_memory()) == ()


def test_a_drift_names_the_figures_and_the_copy_that_appeared() -> None:
    after = make_memory(make_copy(), peak=204 * MIB)
    (finding,) = measure(after, before=make_memory())
    assert (finding.rule, finding.severity) == ("LD034", Severity.WARNING)
    assert finding.message == (
        "the memory drifted from the baseline: the peak was 140.0 MiB and is 204.0 MiB, and 1 more figure;"
        " a copy appeared: 64.0 MiB, not donated, at train.py:41"
    )
    assert finding.source == make_line(41)
    assert finding.evidence == (
        ("figure", "the peak was 140.0 MiB and is 204.0 MiB"),
        ("figure", "the copied bytes were 0 bytes and are 64.0 MiB"),
        ("new copy", "64.0 MiB, not donated, at train.py:41"),
    )


def test_less_memory_is_a_note() -> None:
    (finding,) = measure(make_memory(), before=make_memory(make_copy()))
    assert finding.severity is Severity.NOTE
    assert ("gone copy", "64.0 MiB, not donated, at train.py:41") in finding.evidence


@pytest.mark.parametrize(
    ("peak", "drifts"),
    [(142 * MIB, False), (143 * MIB, True), (138 * MIB, False), (137 * MIB, True)],
)
def test_two_per_cent_are_tolerated(peak: int, drifts: bool) -> None:
    assert bool(measure(make_memory(peak=peak), before=make_memory())) is drifts


def test_64_kib_are_tolerated() -> None:
    small = replace(make_memory(), peak=MIB)
    assert not measure(replace(small, peak=MIB + 65536), before=small)
    assert measure(replace(small, peak=MIB + 65537), before=small)


def test_a_copy_on_another_line_did_not_appear() -> None:
    """An edit above it moves the line of a copy."""
    before, after = make_memory(make_copy()), make_memory(make_copy(line=make_line(50)), peak=204 * MIB)
    (finding,) = measure(after, before=before)
    assert [label for label, _ in finding.evidence] == ["figure"]
    other = make_memory(make_copy(line=make_line(50), cause=CopyCause.LAYOUT), peak=204 * MIB)
    (finding,) = measure(other, before=before)
    assert {label for label, _ in finding.evidence} == {"figure", "new copy", "gone copy"}


def test_an_expected_case_above_its_budget_fails_the_run() -> None:
    case = conclude(make_judged(outputs={"a": Verdict.STALE}, memory=make_memory()), budgets=MemoryBudgets(memory=MIB))
    assert [finding.rule for finding in list_unexcused(case)] == ["LD033"]
    assert compute_exit_code(make_report(case), fail_on=FailOn.ERROR, strict=False) == 1
    within = conclude(make_judged(outputs={"a": Verdict.STALE}, memory=make_memory()), budgets=MemoryBudgets(copies=0))
    assert compute_exit_code(make_report(within), fail_on=FailOn.NOTE, strict=False) == 0


def test_a_case_may_not_expect_the_rules_of_budgets_and_baselines() -> None:
    judged = make_judged(outputs={"a": Verdict.STALE}, memory=make_memory(), expected_rules=())
    assert conclude(judged, budgets=MemoryBudgets(memory=MIB)).mismatch == ""


def test_a_budget_that_could_not_be_checked_is_a_gap_in_the_coverage() -> None:
    judged = make_judged(outputs={"a": Verdict.FRESH}, expected=None)
    gaps = conclude(judged, budgets=MemoryBudgets(copies=0)).coverage.not_covered
    assert "the budgets of memory and copies were not checked: the memory of the program is unknown" in gaps
    assert not any("budget" in gap for gap in conclude(judged).coverage.not_covered)
    known = make_judged(outputs={"a": Verdict.FRESH}, expected=None, memory=make_memory())
    assert not any("budget" in gap for gap in conclude(known, budgets=MemoryBudgets(copies=0)).coverage.not_covered)


def test_a_recorded_case_drifts_when_it_is_checked_against_the_file(tmp_path: Path) -> None:
    options = CheckOptions(baseline=tmp_path / "b.json")
    before = conclude(make_judged(memory=make_memory(make_copy())))
    text = render_record(make_report(before), options, tmp_path / "b.json")
    recorded = find_recorded(parse_baseline(text), make_judged().identity, options.toolchain)
    assert recorded is not None
    assert recorded.memory == compute_figures(make_memory(make_copy()))
    after = conclude(make_judged(memory=make_memory()), recorded=recorded)
    assert [finding.rule for finding in after.findings] == ["LD034"]
    assert not conclude(make_judged(memory=make_memory(make_copy())), recorded=recorded).findings


def test_a_baseline_of_an_older_version_is_read_and_a_note_says_that_it_has_no_memory(tmp_path: Path) -> None:
    options = CheckOptions(baseline=tmp_path / "b.json")
    case = conclude(make_judged(memory=make_memory()))
    top = json.loads(render_record(make_report(case), options, tmp_path / "b.json"))
    del top["cases"][0]["memory"]
    baseline = parse_baseline(json.dumps(top))
    recorded = find_recorded(baseline, make_judged().identity, options.toolchain)
    assert recorded is not None
    assert recorded.memory is None
    assert not conclude(make_judged(memory=make_memory(make_copy())), recorded=recorded).findings
    notes = list_baseline_notes(baseline, tmp_path / "b.json", [case], options, {})
    assert any("recorded without memory, so memory was not compared: `flce[hidden]` on h100" in note for note in notes)
