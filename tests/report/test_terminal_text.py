"""A report on a terminal: wide, at 80 columns, through a pipe, with colours and without."""

import pytest

from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.report import Coverage, Status
from ligerdiag.report.terminal.full_report import render_quietly, render_terminal
from ligerdiag.report.terminal.spans import Span, Style
from ligerdiag.report.terminal.summary import render_totals
from ligerdiag.text import compute_cells
from tests.report.samples import make_case, make_finding, make_report

LONG_ID = "seed_flce_bf16[False-bfloat16-True-4-2048-50304-1024]"


def test_a_case_is_one_line_with_a_verdict_for_every_output() -> None:
    lines = render_terminal(make_report(make_case())).splitlines()
    assert lines[0].split() == ["case", "status", "h100"]
    assert lines[1] == "flce[hidden]  as expected  loss fresh · input STALE · weight latent · bias clobbered"


def test_a_pipe_gets_ids_unbroken_however_long() -> None:
    long = f"case[{'x' * 300}]"
    text = render_terminal(make_report(make_case(long), make_case("b")))
    assert any(line.startswith(f"{long}  as expected  loss fresh") for line in text.splitlines())


def test_eighty_columns_are_kept_and_ids_stay_whole() -> None:
    report = make_report(
        make_case(LONG_ID, findings=(make_finding(),)),
        make_case("b", Status.UNEXPECTED, mismatch="expected `weight` stale but it is fresh " * 4),
    )
    text = render_terminal(report, width=80)
    assert max(compute_cells(line) for line in text.splitlines()) <= 80
    assert f"{LONG_ID}  as expected\n    loss fresh · input STALE" in text


def test_many_cases_that_are_as_expected_are_counted_and_not_listed() -> None:
    expected = [make_case(f"case[{number}]", findings=(make_finding(),)) for number in range(13)]
    text = render_terminal(make_report(*expected, make_case("wrong", Status.UNEXPECTED, mismatch="it is fresh")))
    assert "as expected: 13 cases not listed, with 13 findings that they expect: -v lists them" in text
    assert "case[3]" not in text
    assert "LD002" not in text
    assert "unexpected: `wrong` on h100: it is fresh" in text
    assert "13 as expected, 1 unexpected" in text


def test_a_dozen_cases_are_listed_and_with_verbose_any_number() -> None:
    expected = [make_case(f"case[{number}]", findings=(make_finding(),)) for number in range(13)]
    assert "case[3]" in render_terminal(make_report(*expected[:12]))
    text = render_terminal(make_report(*expected), verbose=True)
    assert "case[3]" in text
    assert "not listed" not in text


def test_a_finding_that_no_expectation_excuses_is_listed_among_many_cases() -> None:
    expected = [make_case(f"case[{number}]", findings=(make_finding(),)) for number in range(13)]
    budget = make_finding(rule="LD033", message="one call needs 9.0 MiB, and the budget is 1.0 MiB")
    text = render_terminal(make_report(*expected, make_case("large", findings=(budget,))))
    assert "13 cases not listed" in text
    assert "one call needs 9.0 MiB, and the budget is 1.0 MiB" in text
    assert text.endswith("; 1 with a drift from the baseline or an exceeded budget\n")
    assert "large" in text


def test_the_last_line_says_in_the_colour_of_an_error_that_a_budget_fails_the_run() -> None:
    budget = make_finding(rule="LD033", message="one call needs 9.0 MiB, and the budget is 1.0 MiB")
    spans = render_totals(make_report(make_case("small"), make_case("large", findings=(budget,))), None)[-1]
    assert spans[-1] == Span("1 with a drift from the baseline or an exceeded budget", Style.BAD)


def test_a_verdict_keeps_its_words_without_colour() -> None:
    text = render_terminal(make_report(make_case()), colour=False)
    assert "\x1b" not in text


def test_colour_changes_nothing_but_colour() -> None:
    report = make_report(make_case(findings=(make_finding(),)), make_case("b", Status.ERROR, error="aborted"))
    coloured = render_terminal(report, colour=True)
    assert "\x1b[1;31mSTALE\x1b[0m" in coloured
    assert "\x1b[32mfresh\x1b[0m" in coloured
    from ligerdiag.text import compute_printable

    plain = "".join(f"{compute_printable(line)}\n" for line in coloured.splitlines())
    assert plain == render_terminal(report)


@pytest.mark.parametrize("width", [None, 80])
@pytest.mark.parametrize("colour", [False, True])
def test_hostile_names_are_shown_without_effect(width: int | None, colour: bool) -> None:
    evil = "[red]x[/red]\x1b]0;owned\x07\x1b[2J\n"
    finding = make_finding(
        message=evil, help=evil, evidence=((evil, evil),), source=SourceLine(file=evil, line=3), rule="LD001"
    )
    case = make_case(
        evil,
        Status.ERROR,
        target=evil,
        outputs={evil: Verdict.STALE},
        findings=(finding,),
        error=evil,
        log_tail=evil,
        coverage=Coverage(not_covered=(evil,)),
    )
    report = make_report(case, make_case(evil, Status.UNEXPECTED, mismatch=evil), targets=(evil,))
    text = render_terminal(report, width=width, colour=colour, verbose=True)
    assert "[red]x[/red]" in text
    assert "owned" not in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text


def test_targets_are_side_by_side() -> None:
    report = make_report(
        make_case(target="a100", outputs={"w": Verdict.LATENT}),
        make_case(target="h100", outputs={"w": Verdict.STALE}),
        targets=("a100", "h100"),
    )
    lines = render_terminal(report).splitlines()
    assert lines[0].split() == ["case", "status", "a100", "h100"]
    assert lines[1].split() == ["flce[hidden]", "as", "expected", "w", "latent", "w", "STALE"]


def test_targets_that_differ_in_status_have_their_own() -> None:
    report = make_report(
        make_case(target="a100", outputs={"w": Verdict.STALE}),
        make_case(target="h100", status=Status.UNEXPECTED, outputs={"w": Verdict.FRESH}, mismatch="m"),
        make_case("other", target="h100"),
        targets=("a100", "h100"),
    )
    text = render_terminal(report)
    assert text.splitlines()[1].startswith("flce[hidden]  UNEXPECTED   ")
    assert "UNEXPECTED: w fresh" in text
    assert "as expected: w STALE" in text
    assert "not done" in text


def test_an_error_shows_case_message_and_the_end_of_the_log() -> None:
    log = "\n".join(f"line {n}" for n in range(100))
    case = make_case("boom", Status.ERROR, error="worker aborted", log_tail=log, outputs={})
    text = render_terminal(make_report(case))
    assert "could not analyse `boom` on h100: worker aborted\n   | line 88\n" in text
    assert "   | line 99\n" in text
    assert "line 87" not in text


def test_a_trouble_that_a_case_has_on_several_targets_is_printed_once() -> None:
    targets = ("a100", "h100", "b200")
    same = [make_case("wrong", Status.UNEXPECTED, target=one, mismatch="it is fresh") for one in targets[:2]]
    other = make_case("wrong", Status.UNEXPECTED, target="b200", mismatch="it is latent")
    lost = [make_case("open", Status.INCONCLUSIVE, target=one, outputs={"w": Verdict.UNKNOWN}) for one in targets]
    for render in (render_terminal, render_quietly):
        text = render(make_report(*same, other, *lost, targets=targets))
        assert text.count("unexpected: `wrong`") == 2
        assert "unexpected: `wrong` on a100 and h100: it is fresh" in text
        assert "unexpected: `wrong` on b200: it is latent" in text
    assert [line for line in text.splitlines() if line.startswith("inconclusive")] == [
        "inconclusive: `open` on a100, h100 and b200: `w` could not be decided"
    ]


def test_coverage_lists_covered_and_uncovered_things() -> None:
    report = make_report(make_case("a"), make_case("b"), make_case("c", Status.ERROR, error="x"))
    text = render_terminal(report)
    assert (
        "covered: 240 instructions in 2 compiled modules, 2 kernel or library calls, 2 writes hidden from XLA, 158 of 160 "
        "operations recognised after XLA's optimizations, XLA's memory layout for 2 of 2 modules\n"
    ) in text
    assert "not covered: custom call `cublas$gemm` by its table entry (in 2 modules)\n" in text
    assert "not covered: 1 module that could not be analysed\n" in text


def test_no_line_claims_more_than_was_covered() -> None:
    cases = [make_case(f"c[{status.name}]", status, outputs={"a": Verdict.FRESH}) for status in Status]
    text = render_terminal(make_report(*cases)).lower().replace("c[clean]", "")
    assert "clean" not in text
    assert "no hazard" not in text


def test_the_last_line_counts() -> None:
    report = make_report(make_case("a"), make_case("b"), make_case("c", Status.UNEXPECTED, mismatch="m"))
    last = render_terminal(report).splitlines()[-1]
    assert last == "3 cases on h100 in 1.5 s: 2 as expected, 1 unexpected, 0 inconclusive, 0 could not analyse"


def test_an_interrupted_run_is_reported_as_such() -> None:
    assert "interrupted, the other cases were not done" in render_terminal(make_report(make_case(), interrupted=True))
    assert render_terminal(make_report(interrupted=True)) == "interrupted before any case was done\n"


def test_an_empty_run_says_that_nothing_was_checked() -> None:
    assert render_terminal(make_report()) == "nothing was checked\n"


@pytest.mark.parametrize("width", [None, 40])
@pytest.mark.parametrize("colour", [False, True])
def test_no_name_starts_a_line_that_a_workflow_takes_for_a_command(width: int | None, colour: bool) -> None:
    name = "::set-output name=x::y"
    finding = make_finding(message=f"the value {'that has a long name ' * 2} {name} ##[add-mask]z", evidence=())
    case = make_case(name, findings=(finding,), outputs={name: Verdict.STALE}, coverage=Coverage(not_covered=(name,)))
    text = render_terminal(make_report(case), width=width, colour=colour)
    assert "set-output name=x::y" in text
    assert [line for line in text.splitlines() if line.lstrip().startswith("::")] == []
    assert "##[" not in text


def test_fields_that_xla_does_not_know_are_shown_with_verbose_alone() -> None:
    line = "XLA of `seed` compiles for `h100` without fields that it does not know: `gpu_device_info.name`"
    report = make_report(make_case("one"), dropped_fields=(line,))
    assert line not in " ".join(render_terminal(report).split())
    assert f"note: {line}" in " ".join(render_terminal(report, verbose=True).split())
