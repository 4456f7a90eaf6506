"""A report says which of XLA's choices come from a file, and which a tuned machine may make otherwise."""

from ligerdiag.model.report import CaseReport
from ligerdiag.model.tuning import TunedKind, Tuning
from ligerdiag.report.html import render_case_html
from ligerdiag.report.terminal.full_report import MAX_TUNED, render_terminal
from ligerdiag.report.words.tuning_words import describe_tuning
from tests.report.samples import make_case, make_report, make_tuned, make_tuning

FUSION = make_tuned("loop_add_fusion", TunedKind.FUSION)


def list_lines(*cases: CaseReport, verbose: bool = False) -> list[str]:
    text = render_terminal(make_report(*cases), verbose=verbose)
    return [line for line in text.splitlines() if line.startswith(("tuned", "not tuned"))]


def test_a_file_is_named_with_its_digest_and_the_instructions_that_it_has() -> None:
    assert list_lines(make_case(tuning=make_tuning())) == [
        "tuned: by `h100.pbtxt` (12 choices, sha256 0123456789ab): 1 of 3 tuned instructions has an entry there; without "
        "an entry, and so compiled as without a GPU: `gemm_fusion_dot.1`"
    ]


def test_a_fusion_without_an_entry_is_counted_and_not_named() -> None:
    said = describe_tuning(make_tuning(open=(FUSION,)))
    assert said.endswith(": 1 of 2 tuned instructions has an entry there")


def test_a_file_that_fits_nothing_is_shown() -> None:
    said = describe_tuning(make_tuning(recorded=(), open=(make_tuned("a"), FUSION)))
    assert ": 0 of 2 tuned instructions have an entry there; " in said


def test_a_program_without_products_and_an_xla_that_is_silent_are_told_apart() -> None:
    assert describe_tuning(make_tuning(recorded=(), open=())).endswith(": the program has no instruction that is tuned")
    silent = describe_tuning(make_tuning(counted=False, recorded=(), open=()))
    assert silent.endswith(": XLA does not say which instructions have an entry there")


def test_without_a_file_only_a_verbose_report_lists_what_a_gpu_may_choose() -> None:
    case = make_case(tuning=Tuning(open=tuple(make_tuned(f"dot.{n}") for n in range(6))))
    assert list_lines(case) == []
    assert list_lines(case, verbose=True) == [
        "not tuned: a tuned machine may implement 6 instructions otherwise: `dot.0`, `dot.1`, `dot.2`, `dot.3` and 2 more; "
        "see --autotune-results"
    ]
    assert list_lines(make_case(tuning=Tuning()), verbose=True) == []


def test_many_cases_share_a_line_and_those_with_most_gaps_are_shown() -> None:
    cases = [make_case(f"case{n}", tuning=make_tuning(open=(FUSION,) * n)) for n in range(MAX_TUNED + 3)]
    lines = list_lines(*cases)
    assert len(lines) == MAX_TUNED
    assert lines[0].startswith(f"tuned `case{MAX_TUNED + 2}` on h100: ")
    assert lines[-1] == "tuned: 4 more: -v lists them"
    assert len(list_lines(*cases, verbose=True)) == len(cases)


def test_the_page_of_a_case_says_the_same() -> None:
    page = render_page(make_tuning())
    assert "<dt>choices of the autotuner</dt>" in page
    assert "12 choices, sha256 0123456789ab" in page
    assert "choices of the autotuner" not in render_page(Tuning())


def render_page(tuning: Tuning) -> str:
    case = make_case(tuning=tuning)
    return render_case_html(case, make_report(case))
