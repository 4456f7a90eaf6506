"""Two reports side by side: the grade of each case, their order, and the three formats."""

import json
from dataclasses import replace

import pytest

from ligerdiag.cli.exit_codes import compute_comparison_code
from ligerdiag.codec import FieldError
from ligerdiag.model.findings import Severity, SourceLine, Suppression, SuppressionKind, Verdict
from ligerdiag.model.memory import CopyCause
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.compared.comparison_words import describe_counts
from ligerdiag.report.compared.report_comparison import Grade, ReportComparison, compare_reports, make_side
from ligerdiag.report.compared.report_reading import parse_side
from ligerdiag.report.json import render_comparison_json, render_json
from ligerdiag.report.markdown import MOST_FINDINGS, MOST_ROWS, render_comparison_markdown
from ligerdiag.report.terminal.comparison_tables import MOST_SAME
from ligerdiag.report.terminal.full_report import render_report_comparison_text
from tests.hazards.memory_by_hand import MIB, make_copy, make_line, make_memory
from tests.report.compared_samples import (
    BIG,
    NEW,
    OLD,
    compare_by_hand,
    make_compared,
    make_compared_report,
    make_memory_finding,
)

WHOLE = compare_by_hand(OLD, NEW)


def grade(old: object, new: object) -> Grade:
    """Returns the grade of one case with these memories, or of two cases."""
    cases = [one if hasattr(one, "status") else make_compared("a", one) for one in (old, new)]  # type: ignore[arg-type]
    return compare_by_hand(cases[:1], cases[1:]).cases[0].grade  # type: ignore[arg-type]


def test_the_worst_case_comes_first() -> None:
    assert [(case.id, case.grade) for case in WHOLE.cases] == [
        ("flce", Grade.WORSE),
        ("cond", Grade.WORSE),
        ("sharded", Grade.WORSE),
        ("broken", Grade.UNKNOWN),
        ("decode", Grade.BETTER),
        ("evaluate", Grade.SAME),
    ]
    assert [case.id for case in WHOLE.only_old] == ["gone"]
    assert [case.id for case in WHOLE.only_new] == ["added"]
    assert compute_comparison_code(WHOLE) == 1


def test_what_appeared_and_what_is_gone_is_named() -> None:
    cond = next(case for case in WHOLE.cases if case.id == "cond")
    assert [finding.rule for finding in cond.appeared] == ["LD027"]
    assert [copy.text for copy in cond.copies] == ["64.0 MiB, branch without effect, at train.py:88"]
    decode = next(case for case in WHOLE.cases if case.id == "decode")
    assert [(copy.before, copy.after) for copy in decode.copies] == [(136 * MIB, 0)]


def test_less_of_one_thing_and_more_of_another_is_mixed() -> None:
    before = make_memory(make_copy(64 * MIB))
    assert grade(before, make_memory()) is Grade.BETTER
    assert grade(before, make_memory(temporaries=40 * MIB)) is Grade.MIXED
    assert grade(make_memory(), make_memory(peak=200 * MIB, collectives=())) is Grade.WORSE
    mixed = compare_by_hand([make_compared("a", before)], [make_compared("a", make_memory(peak=200 * MIB))])
    assert compute_comparison_code(mixed) == 1
    assert render_report_comparison_text(mixed).endswith("compared 1 case: 1 mixed\n")
    assert "| ⚠️ mixed | `a` |" in render_comparison_markdown(mixed)


def test_a_better_verdict_and_less_memory_are_better_although_temporaries_grow() -> None:
    """Temporaries are a part of the reserved memory, which stays within the tolerance."""
    old = make_memory(make_copy(2 * MIB), peak=10 * MIB, temporaries=2 * MIB)
    new = make_memory(peak=8 * MIB, temporaries=2 * MIB + 72 * 1024 + 800)
    before = make_compared("a", old, outputs={"loss": Verdict.UNKNOWN}, status=Status.INCONCLUSIVE)
    (case,) = compare_by_hand([before], [make_compared("a", new)]).cases
    assert case.grade is Grade.BETTER
    temporaries = case.find("temporaries")
    assert temporaries is not None
    assert temporaries.change > 0


def test_a_worse_verdict_is_worse_whatever_else_is_better() -> None:
    stale = make_compared("a", make_memory(), outputs={"loss": Verdict.STALE}, status=Status.FINDINGS)
    assert grade(make_compared("a", make_memory(BIG)), stale) is Grade.WORSE
    latent = make_compared("a", outputs={"loss": Verdict.FRESH, "other": Verdict.LATENT})
    swapped = make_compared("a", outputs={"loss": Verdict.LATENT, "other": Verdict.FRESH})
    assert grade(latent, swapped) is Grade.WORSE


def test_more_memory_for_a_better_verdict_is_mixed() -> None:
    before = make_compared("a", make_memory(), outputs={"loss": Verdict.STALE}, status=Status.FINDINGS)
    assert grade(before, make_memory(peak=200 * MIB)) is Grade.MIXED


def test_the_same_copies_with_another_cause_are_the_same() -> None:
    needed = replace(BIG, cause=CopyCause.RETURNED, is_needed=True, line=None)
    crossed = replace(BIG, cause=CopyCause.PAIRING)
    old = make_compared("a", make_memory(needed))
    new = make_compared("a", make_memory(crossed), findings=(make_memory_finding(),), status=Status.FINDINGS)
    (case,) = compare_by_hand([old], [new]).cases
    assert (case.grade, case.copies) == (Grade.SAME, ())
    assert [finding.rule for finding in case.appeared] == ["LD027"]


@pytest.mark.parametrize(
    "new",
    [
        make_compared("a", outputs={"loss": Verdict.LATENT}),
        make_compared("a", outputs={"loss": Verdict.FRESH, "other": Verdict.UNKNOWN}),
        make_compared("a", status=Status.INCONCLUSIVE),
        make_compared("a", findings=(make_memory_finding(),)),
        make_compared("a", status=Status.ERROR, error="XLA aborted", outputs={}),
    ],
)
def test_verdicts_statuses_findings_and_aborts_can_be_worse(new: object) -> None:
    assert grade(make_compared("a"), new) is Grade.WORSE


def test_a_note_and_an_allowed_finding_are_shown_and_are_not_worse() -> None:
    note = make_compared("a", findings=(make_memory_finding(severity=Severity.NOTE),), status=Status.FINDINGS)
    (case,) = compare_by_hand([make_compared("a")], [note]).cases
    assert (case.grade, case.is_same, len(case.appeared)) == (Grade.SAME, False, 1)


def test_a_finding_on_another_line_is_the_same_one() -> None:
    old = make_compared("a", findings=(make_memory_finding(),))
    moved = make_compared("a", findings=(make_memory_finding(source=make_line(50), message="other words"),))
    elsewhere = make_compared("a", findings=(make_memory_finding(source=make_line(50, "/home/me/loss.py")),))
    assert compare_by_hand([old], [moved]).cases[0].is_same
    assert compare_by_hand([old], [elsewhere]).cases[0].grade is Grade.MIXED


def test_folders_do_not_count() -> None:
    other = make_line(41, "/somewhere/else/train.py")
    old = make_compared("a", make_memory(BIG), findings=(make_memory_finding(),))
    new = make_compared(
        "a", make_memory(replace(BIG, line=make_line(88, other.file))), findings=(make_memory_finding(source=other),)
    )
    assert compare_by_hand([old], [new]).cases[0].is_same


def test_two_findings_of_one_rule_on_one_line_are_two() -> None:
    one = make_compared("a", findings=(make_memory_finding(),))
    two = make_compared("a", findings=(make_memory_finding(), make_memory_finding(source=make_line(42))))
    assert len(compare_by_hand([one], [two]).cases[0].appeared) == 1
    assert len(compare_by_hand([two], [one]).cases[0].gone) == 1


def test_cases_of_two_targets_are_matched_by_target_and_else_by_id() -> None:
    a100, h100 = (make_compared("a", target=target) for target in ("a100", "h100"))
    assert [case.target for case in compare_by_hand([h100, a100], [a100, h100]).cases] == ["a100", "h100"]
    (case,) = compare_by_hand([a100], [h100]).cases
    assert case.target == "a100 → h100"
    b200 = make_compared("a", target="b200")
    both = compare_by_hand([a100, h100], [b200])
    assert (both.cases, len(both.only_old), len(both.only_new)) == ((), 2, 1)


def test_modules_are_matched_without_the_number_of_xla() -> None:
    old, new = make_compared("module_0003.jit_step"), make_compared("module_0017.jit_step")
    assert len(compare_by_hand([old], [new]).cases) == 1
    assert len(compare_by_hand([old], [replace(new, target="a100")]).cases) == 1
    twice = [make_compared("module_0017.jit_step"), make_compared("module_0018.jit_step")]
    assert compare_by_hand([old], twice).cases == ()


def test_unknown_memory_is_not_compared_and_a_note_says_so() -> None:
    comparison = compare_by_hand([make_compared("a")], [make_compared("a", make_memory())])
    assert comparison.cases[0].grade is Grade.SAME
    assert "the memory of 1 of 1 cases is in only one of the reports, so it was not compared" in comparison.notes
    assert "unknown → 140.0 MiB" in render_report_comparison_text(comparison, verbose=True)


def test_nothing_that_was_analysed_before_is_3() -> None:
    broken = make_compared("a", status=Status.ERROR, error="XLA aborted", outputs={})
    assert compute_comparison_code(compare_by_hand([broken], [make_compared("a")])) == 3
    assert compute_comparison_code(compare_by_hand([make_compared("a")], [make_compared("a")])) == 0


def test_a_wrong_output_hints_at_the_pass_and_another_target_at_a_diff() -> None:
    assert next(case for case in WHOLE.cases if case.id == "flce").hint == (
        "ligerdiag bisect 'flce' --over passes --target h100"
    )
    grown = compare_by_hand(
        [make_compared("a", make_memory(), target="a100")], [make_compared("a", make_memory(BIG), target="h100")]
    )
    assert grown.cases[0].hint == "ligerdiag diff 'a' --targets a100,h100"


def test_the_terminal_shows_the_table_and_what_changed() -> None:
    text = render_report_comparison_text(WHOLE)
    lines = text.splitlines()
    assert lines[0] == "old: old.json, jax-0.10.0; new: new.json, jax-0.11.2"
    cond = next(line for line in lines if line.startswith("worse") and " cond " in line)
    for words in ("140.0 MiB → 204.0 MiB", "30.0 MiB → 94.0 MiB", "0 bytes → 64.0 MiB"):
        assert words in cond
    assert "`loss` was fresh and is STALE" in text
    assert "warning[LD027] (train.py:41): `cache` is copied before it is overwritten" in text
    assert "1: 4.0 MiB → 2: 12.0 MiB" in text
    assert "evaluate" not in text
    assert "evaluate" in render_report_comparison_text(WHOLE, verbose=True)
    assert lines[-1] == "compared 6 cases: 3 worse, 1 better, 1 the same, 1 not compared"


def test_cases_that_are_the_same_and_not_right_are_counted_as_such() -> None:
    outputs = {"a": Verdict.UNKNOWN, "b": Verdict.UNKNOWN, "c": Verdict.LATENT, "d": Verdict.FRESH}
    lasting = [make_compared("a", status=Status.INCONCLUSIVE, outputs=outputs), make_compared("b")]
    assert describe_counts(compare_by_hand(lasting, lasting)) == (
        "compared 2 cases: 2 the same; of the same, not clean: 1 inconclusive (outputs: 2 unknown, 1 latent)"
    )
    clean = [make_compared("b")]
    assert describe_counts(compare_by_hand(clean, clean)) == "compared 1 case: 1 the same"


def compare_toolchains_by_hand(old: list[CaseReport], new: list[CaseReport]) -> ReportComparison:
    sides = [make_side(make_compared_report(cases), name, name) for cases, name in ((old, "jax-a"), (new, "jax-b"))]
    return compare_reports(sides[0], sides[1])


def test_a_comparison_of_toolchains_gives_the_verdicts_of_each_case_that_is_the_same() -> None:
    stale = make_compared("a", outputs={"x": Verdict.STALE, "y": Verdict.FRESH}, status=Status.FINDINGS)
    comparison = compare_toolchains_by_hand([stale, make_compared("b")], [stale, make_compared("b")])
    text = render_report_comparison_text(comparison)
    assert "the same: a on h100: x STALE · y fresh\n" in text
    assert "the same: b on h100: loss fresh\n" in text
    assert "the same: " not in render_report_comparison_text(compare_by_hand([stale], [stale]))


def test_many_cases_that_are_the_same_are_counted() -> None:
    cases = [make_compared(f"case{number}") for number in range(MOST_SAME + 3)]
    text = render_report_comparison_text(compare_toolchains_by_hand(cases, cases))
    assert text.count("\nthe same: case") == MOST_SAME
    assert "the same: 3 more, shown with -v\n" in text


def test_a_narrow_terminal_has_a_line_for_each_column() -> None:
    text = render_report_comparison_text(WHOLE, width=60)
    assert "    peak: 140.0 MiB → 204.0 MiB\n" in text


def test_markdown_is_one_table_whose_rows_have_all_cells() -> None:
    text = render_comparison_markdown(WHOLE)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    assert len({row.count(" | ") for row in rows}) == 1
    assert rows[3].startswith("| ❌ worse | `cond` | `h100` |")
    assert "`new copy: 64.0 MiB, branch without effect, at train.py:88`" in rows[3]


def test_markdown_shows_the_remedy_of_each_new_finding_once_for_all_its_cases() -> None:
    known, new = (
        make_memory_finding(),
        make_memory_finding(message="new here", source=make_line(7), help="do `this` (/home/me/a.py:7)"),
    )
    old = [make_compared("a", findings=(known,)), make_compared("b")]
    both = [make_compared("a", findings=(known, new)), make_compared("b", findings=(new,))]
    text = render_comparison_markdown(compare_by_hand(old, both))
    section = text.partition("### New findings")[2].partition("- `old")[0]
    assert section.split("\n") == [
        "",
        "",
        "```text",
        "warning[LD027] (train.py:7): new here",
        "   help: do `this` (a.py:7)",
        "   in:   a on h100, b on h100",
        "```",
        "",
        "",
    ]


def test_markdown_shows_the_findings_of_a_case_that_the_old_report_lacks() -> None:
    allowed = Suppression(kind=SuppressionKind.IN_CODE, reason="meant", where="a.py:1")
    findings = make_memory_finding(help="do this"), make_memory_finding(message="allowed", suppressed=allowed)
    text = render_comparison_markdown(compare_by_hand([], [make_compared("a", findings=findings)]))
    assert "help: do this" in text
    assert "allowed" not in text.partition("### New findings")[2]
    expected = [make_compared("a", findings=findings, status=Status.EXPECTED)]
    assert "New findings" not in render_comparison_markdown(compare_by_hand([], expected))


def test_markdown_has_no_section_without_new_findings() -> None:
    same = [make_compared("a", findings=(make_memory_finding(),))]
    assert "New findings" not in render_comparison_markdown(compare_by_hand(same, same))


def test_markdown_shows_the_worst_of_many_new_findings_first_and_counts_the_rest() -> None:
    many = tuple(make_memory_finding(message=f"number {n}", source=make_line(n + 1)) for n in range(MOST_FINDINGS))
    worst = make_memory_finding(message="the worst", rule="LD001", severity=Severity.ERROR)
    text = render_comparison_markdown(
        compare_by_hand([make_compared("a")], [make_compared("a", findings=(*many, worst))])
    )
    blocks = text.partition("### New findings")[2]
    assert blocks.count("```text") == MOST_FINDINGS
    assert blocks.index("the worst") < blocks.index("number 0")
    assert "… and 1 more new findings, not shown here." in blocks


@pytest.mark.parametrize("name", ["a|b", "<img src=x>", "a\n| b", "`a`", "\x1b[31m"])
def test_names_are_no_markup_and_no_escape_sequences(name: str) -> None:
    line = SourceLine(file=f"/{name}", line=1)
    old = make_compared(name, make_memory(), outputs={name: Verdict.FRESH})
    new = make_compared(name, make_memory(make_copy(line=line)), outputs={name: Verdict.STALE})
    comparison = compare_by_hand([old], [new])
    markdown = render_comparison_markdown(comparison)
    rows = [row for row in markdown.splitlines() if row.startswith("|")]
    assert len(rows) == 3
    assert "\x1b" not in markdown + render_report_comparison_text(comparison)
    assert len({row.count(" | ") for row in rows}) == 1


def test_a_long_table_is_cut_and_says_so() -> None:
    ids = [f"case{number}" for number in range(MOST_ROWS + 5)]
    old, new = ([make_compared(one, make_memory(*copies)) for one in ids] for copies in ((), (BIG,)))
    assert "… and 5 more, not shown here." in render_comparison_markdown(compare_by_hand(old, new))


def test_json_has_the_figures_of_both_sides() -> None:
    top = json.loads(render_comparison_json(WHOLE, exit_code=1))
    assert (top["exit_code"], top["counts"]) == (1, {"worse": 3, "mixed": 0, "better": 1, "same": 1, "not compared": 1})
    cond = top["cases"][1]
    assert cond["figures"][0] == {"figure": "peak", "old": 140 * MIB, "new": 204 * MIB, "change": 64 * MIB}
    assert cond["copies"] == [
        {"cause": "branch without effect", "file": "train.py", "line": 88, "before": 0, "after": 64 * MIB}
    ]
    assert cond["new_findings"][0]["rule"] == "LD027"


def test_reports_from_files_compare_as_the_reports_themselves() -> None:
    first = parse_side(render_json(make_compared_report(OLD)), "old.json")
    second = parse_side(render_json(make_compared_report(NEW, "0.11.2")), "new.json")
    again = compare_reports(first, second)
    assert render_comparison_json(again) == render_comparison_json(WHOLE)
    assert render_report_comparison_text(again) == render_report_comparison_text(WHOLE)


def test_a_report_of_a_version_without_memory_is_read() -> None:
    text = render_json(make_compared_report(OLD))
    top = json.loads(text)
    for case in top["cases"]:
        del case["memory"]
    side = parse_side(json.dumps(top), "old.json")
    assert [case.memory for case in side.cases] == [None] * len(OLD)
    assert [case.outputs for case in side.cases] == [case.outputs for case in OLD]


def test_unknown_fields_causes_and_lines_of_another_version_are_no_error() -> None:
    top = json.loads(render_json(make_compared_report([make_compared("a", make_memory(BIG))])))
    (case,) = top["cases"]
    case["new_field"] = case["memory"]["new_field"] = 1
    case["memory"]["copies"][0] |= {"cause": "a new cause", "trips": None, "line": {"file": "a.py", "line": None}}
    case["memory"]["collectives"] = [["all-gather", 7]]
    memory = parse_side(json.dumps(top), "a").cases[0].memory
    assert memory is not None
    (copy,) = memory.copies
    assert (copy.cause, copy.trips, copy.line) == (CopyCause.UNKNOWN, None, SourceLine(file="a.py", line=0))
    assert memory.collectives == (("all-gather", 7),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected JSON"),
        ("[]", "expected an object"),
        ("{}", "expected an array for `cases`"),
        ('{"differences": []}', "expected an array for `cases`"),
        ('{"cases": [3]}', "expected an object for `cases`"),
        ('{"cases": [{"outputs": {"a": "fine"}}]}', "expected"),
    ],
)
def test_another_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        parse_side(text, "a")


def test_only_versions_that_both_sides_know_are_compared() -> None:
    old, new = (make_side(make_compared_report(cases), "a") for cases in (OLD, NEW))
    old = replace(old, versions={"jax": "0.10.0", "numpy": "2.5.5", "triton": "3.6.0"})
    new = replace(new, versions={"jax": "0.11.2", "python": "3.12.1", "triton": "3.6.0"})
    assert compare_reports(old, new).notes == ("old: jax 0.10.0; new: jax 0.11.2",)
