"""The headline is never green above a finding or a wrong number, and concerns one kernel."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.model.findings import Attribution, Severity, Suppression, SuppressionKind, Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.model.schedule_view import OutputView, ScheduleView
from ligerdiag.report.html import render_case_html
from ligerdiag.report.html.headline import compute_headline
from ligerdiag.report.html.pages import compute_pictures
from ligerdiag.report.html.prose import list_chips
from ligerdiag.report.html.subject import find_subject
from tests.report.html.pages import compute_text
from tests.report.html.view_samples import make_accesses, make_buffer, make_step, make_view
from tests.report.samples import make_case, make_finding, make_numbers, make_replay, make_report

FRESH = {"bias": Verdict.FRESH, "loss": Verdict.FRESH}
GONE = make_finding(
    rule="LD007", message="`scale_kernel` is not in the compiled program", kernel="scale_kernel", outputs=()
)
OTHER_GONE = replace(GONE, message="`other_kernel` is not in the compiled program", kernel="other_kernel")
OFF = make_replay(
    {name: make_numbers() for name in FRESH},
    reference={"bias": 3.0, "loss": 1e-8},
    reference_tolerance={"bias": 1e-4, "loss": 1e-4},
)
ALLOWED = Suppression(kind=SuppressionKind.CONFIG, reason="known", where="pyproject.toml 1")


@pytest.mark.parametrize(
    ("case", "sign", "count"),
    [
        (make_case(outputs=FRESH), "fresh", "both outputs are fresh"),
        (make_case(outputs=FRESH, replay=OFF), "error", "1 of 2 outputs is wrong by the numbers: bias"),
        (
            make_case(outputs=FRESH, replay=OFF, findings=(GONE,)),
            "error",
            "1 of 2 outputs is wrong by the numbers: bias",
        ),
        (make_case(outputs=FRESH, findings=(GONE,)), "error", "scale_kernel is not in the compiled program"),
        (
            make_case(outputs={}, status=Status.FINDINGS, findings=(GONE, OTHER_GONE)),
            "error",
            "scale_kernel is not in the compiled program; 1 more finding",
        ),
        (
            make_case(outputs=FRESH, findings=(make_finding(rule="LD006", severity=Severity.WARNING, outputs=()),)),
            "warning",
            "both outputs are fresh, with 1 warning",
        ),
        (
            make_case(outputs=FRESH, findings=(replace(GONE, suppressed=ALLOWED),)),
            "nothing",
            "both outputs are fresh; 1 finding allowed",
        ),
        (
            make_case(outputs=FRESH, replay=make_replay({"bias": make_numbers(Attribution.LOSSY)})),
            "warning",
            "1 of 2 outputs is worse than rounding explains: bias",
        ),
        (
            make_case(outputs={"a": Verdict.UNKNOWN, **FRESH}, replay=OFF),
            "error",
            "1 of 3 outputs is wrong by the numbers: bias; 1 could not be decided",
        ),
        (
            make_case(outputs={"a": Verdict.STALE, **FRESH}, replay=OFF),
            "stale",
            "1 of 3 outputs is wrong (stale): a; 1 is wrong by the numbers",
        ),
        (
            make_case(outputs=FRESH, status=Status.UNEXPECTED, mismatch="expected a hazard"),
            "error",
            "unexpected: both outputs are fresh",
        ),
        (
            make_case(outputs=FRESH, status=Status.INCONCLUSIVE, findings=(GONE,)),
            "error",
            "inconclusive: scale_kernel is not in the compiled program",
        ),
    ],
)
def test_a_headline_is_green_only_without_findings(case: CaseReport, sign: str, count: str) -> None:
    headline = compute_headline(case)
    assert (headline.sign, headline.count) == (sign, count)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("severity", list(Severity))
def test_no_status_makes_a_headline_green_above_a_finding(status: Status, severity: Severity) -> None:
    for outputs in ({}, FRESH):
        finding = replace(GONE, severity=severity)
        assert compute_headline(make_case(outputs=outputs, status=status, findings=(finding,))).sign != "fresh"


@pytest.mark.parametrize(
    ("other", "start"),
    [
        (Verdict.FRESH, "the schedule keeps to"),
        (Verdict.LATENT, "this schedule happens to keep to"),
        (Verdict.UNKNOWN, "not every output could be decided"),
    ],
)
def test_a_headline_about_wrong_numbers_claims_only_known_facts_about_the_schedule(other: Verdict, start: str) -> None:
    assert compute_headline(make_case(outputs={**FRESH, "a": other}, replay=OFF)).plain.startswith(start)


def test_an_output_with_a_wrong_number_is_not_a_green_end_of_the_dataflow() -> None:
    replay = make_replay({}, reference={"loss": 3.0}, reference_tolerance={"loss": 1e-4})
    case = make_case(view=make_view(), replay=replay)
    page = render_case_html(case, make_report(case))
    assert "node n-output v-error" in page
    assert "node n-output v-fresh" not in page


def test_a_fresh_output_with_a_wrong_number_is_not_a_green_chip_and_comes_first() -> None:
    outputs = {"loss": Verdict.FRESH, "bias": Verdict.FRESH}
    chips = list_chips(make_case(outputs=outputs, replay=OFF))
    assert [(chip.name, chip.sign, chip.word) for chip in chips] == [
        ("bias", "error", "fresh, wrong by the numbers"),
        ("loss", "fresh", "fresh"),
    ]


def test_an_output_that_a_workaround_rounds_is_inexact_and_not_wrong() -> None:
    rounded = make_finding(rule="LD012", severity=Severity.WARNING)
    (first, _) = list_chips(make_case(outputs=FRESH, replay=OFF, findings=(rounded,)))
    assert (first.sign, first.word) == ("warning", "fresh, inexact")


def make_two_kernels() -> ScheduleView:
    """`early` is the first buffer; `late` is the subject of the worst finding."""
    buffers = (
        make_buffer(kernel="early", value="%early.1"),
        make_buffer(kernel="late", value="%late.1"),
    )
    steps = (*make_view().steps, make_step(20, name="%late_call.1", is_kernel=True))
    late = tuple(replace(a, buffer=1, step=20 if a.step == 7 else a.step) for a in make_accesses((3, 6, 7)))
    sentences = {"input": "`input` misses what `early` wrote into %early.1", "bias": "`bias` misses %late.1 of `late`"}
    outputs = tuple(OutputView(name=n, verdict=Verdict.STALE, path=(9,), sentence=s) for n, s in sentences.items())
    return make_view(buffers=buffers, steps=steps, accesses=(*make_accesses((3, 6, 7, 9)), *late), outputs=outputs)


def test_headline_sentence_and_first_band_concern_the_kernel_of_the_worst_finding() -> None:
    outputs = {"input": Verdict.STALE, "bias": Verdict.STALE, "weight": Verdict.STALE}
    findings = (
        make_finding(kernel="early", outputs=("input",), instructions=("triton_kernel_call_ld53.1",)),
        make_finding(kernel="late", outputs=("bias", "weight"), instructions=("late_call.1",)),
    )
    case = make_case(view=make_two_kernels(), outputs=outputs, findings=findings)
    subject = find_subject(case)
    headline = compute_headline(case)
    assert (subject.kernel, subject.finding) == ("late", findings[1])
    assert headline.plain.startswith("`late` overwrites")
    assert headline.detail == "`bias` misses %late.1 of `late`"
    assert case.view is not None
    assert [picture.buffer.kernel for picture in compute_pictures(case.view, subject)] == ["late", "early"]
    text = compute_text(render_case_html(case, make_report(case)))
    assert text.index("late", text.index("Findings")) < text.index("early", text.index("Findings"))


def test_an_allowed_finding_is_not_the_subject_of_a_page_with_another_wrong_output() -> None:
    findings = (
        make_finding(kernel="early", outputs=("input", "bias"), suppressed=ALLOWED),
        make_finding(kernel="late", outputs=("bias",)),
    )
    case = make_case(outputs={"input": Verdict.STALE, "bias": Verdict.STALE}, findings=findings)
    assert find_subject(case).kernel == "late"


def test_the_head_shows_the_line_of_the_call(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("\n\n    y = jt.triton_call(x, kernel=ce_kernel)\n", encoding="utf-8")
    call = make_finding(rule="LD006", severity=Severity.WARNING, outputs=())
    assert call.source is not None
    call = replace(call, source=replace(call.source, file=str(file), line=3))
    page = render_case_html(
        case := make_case(findings=(make_finding(outputs=("input",)), call), source_roots=(str(tmp_path),)),
        make_report(case),
    )
    head = page[page.index('id="headline"') : page.index('id="findings"')]
    assert f"{file}:3" in head
    assert "y = jt.triton_call(x, kernel=ce_kernel)" in head


@pytest.mark.parametrize(
    "status", [s for s in Status if s not in (Status.CLEAN, Status.EXPECTED, Status.ALLOWED, Status.FINDINGS)]
)
def test_fresh_outputs_alone_make_no_headline_green(status: Status) -> None:
    assert compute_headline(make_case(outputs=FRESH, status=status)).sign != "fresh"
