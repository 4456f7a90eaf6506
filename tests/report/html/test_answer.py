"""The title of the index: the answer in one sentence, never better than the worst page."""

import pytest

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, Noun, Status
from ligerdiag.report.html import render_index_html
from tests.report.html.pages import compute_text
from tests.report.samples import make_case, make_report


def make(verdict: Verdict, status: Status = Status.EXPECTED) -> CaseReport:
    return make_case(status=status, outputs={"loss": verdict})


FRESH, STALE, LATENT = make(Verdict.FRESH), make(Verdict.STALE), make(Verdict.LATENT)
CLOBBERED, UNKNOWN = make(Verdict.CLOBBERED), make(Verdict.UNKNOWN, Status.INCONCLUSIVE)
ERROR = make_case(status=Status.ERROR, outputs={}, error="XLA aborted")
UNDONE = make_case(status=Status.NOT_CHECKED, outputs={}, error="the run ended")
NOTHING = make_case(status=Status.NOTHING, outputs={})
UNEXPECTED = make(Verdict.FRESH, Status.UNEXPECTED)


@pytest.mark.parametrize(
    ("cases", "answer"),
    [
        ((STALE, FRESH, STALE, FRESH, FRESH, FRESH, FRESH), "2 of 7 cases read stale values"),
        ((STALE, CLOBBERED), "1 of 2 cases reads stale values and 1 reads overwritten values"),
        ((STALE, STALE, STALE), "all 3 cases read stale values"),
        ((FRESH, UNKNOWN, FRESH), "1 of 3 cases could not be decided"),
        ((FRESH, UNDONE, ERROR), "1 of 3 cases could not be analysed and 1 was not run"),
        ((FRESH, LATENT), "1 of 2 cases is right by luck"),
        ((FRESH, UNEXPECTED), "1 of 2 cases has an error"),
        ((make(Verdict.FRESH, Status.INCONCLUSIVE),), "the case could not be decided"),
        ((FRESH, FRESH), "both cases read the intended values"),
        ((FRESH, NOTHING, NOTHING), "2 of 3 cases have nothing to check and 1 reads the intended values"),
        ((make(Verdict.FRESH, Status.DISAGREEMENT),), "the case has a verdict that its numbers contradict"),
        ((), "nothing was checked"),
    ],
)
def test_the_title_and_the_heading_are_the_answer(cases: tuple[CaseReport, ...], answer: str) -> None:
    page = render_index_html(make_report(*cases))
    assert f"<title>{answer}</title>" in page
    assert f'<h1 class="plain">{answer}</h1>' in page


def test_a_report_of_a_dump_counts_modules() -> None:
    page = render_index_html(make_report(STALE, FRESH, noun=Noun.MODULE))
    assert "<title>1 of 2 modules reads stale values</title>" in page


def test_the_index_says_what_the_column_of_the_replay_means() -> None:
    from tests.report.samples import make_replay

    text = compute_text(render_index_html(make_report(make_case(replay=make_replay()))))
    assert "replay : do the values computed on the CPU agree with the verdicts?" in text
