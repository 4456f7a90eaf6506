"""Real bisections of small programs whose kernel has a hidden write."""

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.edges import bisect_edges
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.errors import CaseError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Progress
from ligerdiag.report.comparisons import Axis
from ligerdiag.toolchains.gpu_targets import Target
from tests.bisect.conftest import Load, make_options
from tests.bisect.programs import HARMLESS, INTEGER_OUTPUT, NO_READER, TWO_KERNELS, TWO_READERS, UNTRACEABLE

OPTIONS = make_options(Axis.EDGES)


def test_all_minimal_sets_are_found_and_each_is_shown_to_need_its_tie(
    runner: TrialRunner, load: Load, h100: Target
) -> None:
    """XLA fuses the two readers, so that a tie of either puts both after the kernel."""
    bisection = bisect_edges(runner, load(TWO_READERS), h100, make_options(Axis.EDGES, replay=True))
    rows = {row.label: row for row in bisection.rows}
    assert [(label, row.word, row.is_answer) for label, row in rows.items()] == [
        ("no tie", "wrong", False),
        ("all 2 ties", "right", False),
        ("tie 1", "right", True),
        ("tie 2", "right", True),
    ]
    assert set(rows["tie 1"].outputs.values()) == {Verdict.FRESH}
    assert rows["no tie"].outputs["product"] is Verdict.STALE
    assert {row.replay for row in rows.values()} == {"agrees"}
    assert bisection.answers[0] == "exactly 2 minimal sets of ties, out of 2 possible, make every output right"
    assert bisection.trials == 4
    assert not bisection.is_unsettled


def test_a_tie_between_two_kernels_does_not_exchange_them(runner: TrialRunner, load: Load, h100: Target) -> None:
    """A module lists the kernels in another order if their readers are tied; a helpful set of ties was once missed for
    this.
    """
    bisection = bisect_edges(runner, load(TWO_KERNELS), h100, OPTIONS)
    assert bisection.answers[0] == "exactly 2 minimal sets of ties, out of 2 possible, make every output right"
    assert not any("a tie can do harm" in note for note in bisection.notes)


def test_a_tie_is_named_by_operation_line_and_the_outputs_that_need_it(
    runner: TrialRunner, load: Load, h100: Target
) -> None:
    case = load(TWO_READERS)
    bisection = bisect_edges(runner, case, h100, OPTIONS)
    evidence = [row.evidence for row in bisection.rows if row.is_answer]
    assert [[label for label, _ in facts] for facts in evidence] == [["tie 1"], ["tie 2"]]
    texts = [text for facts in evidence for _, text in facts]
    assert {text.split("`")[1] for text in texts} == {"add", "multiply"}
    line = 1 + TWO_READERS.splitlines().index(next(text for text in TWO_READERS.splitlines() if "return {" in text))
    assert all(
        f"{case.source.file}:{line} reads f32[8]; without it `product` is stale, `sum` is latent" in text
        for text in texts
    )


def test_an_operand_without_later_readers_needs_no_tie(runner: TrialRunner, load: Load, h100: Target) -> None:
    bisection = bisect_edges(runner, load(NO_READER), h100, OPTIONS)
    assert bisection.answers == ("right without any tie: every output is fresh",)
    assert [(row.label, row.is_answer) for row in bisection.rows] == [("no tie", True)]
    assert bisection.trials == 1


def test_a_program_without_a_hidden_write_has_nothing_to_tie(runner: TrialRunner, load: Load, h100: Target) -> None:
    bisection = bisect_edges(runner, load(HARMLESS), h100, OPTIONS)
    assert bisection.answers == ("no kernel overwrites an operand behind XLA's back: there is nothing to tie",)
    assert not bisection.is_unsettled


def test_a_kernel_without_a_floating_output_cannot_be_tied_to(runner: TrialRunner, load: Load, h100: Target) -> None:
    bisection = bisect_edges(runner, load(INTEGER_OUTPUT), h100, OPTIONS)
    assert bisection.answers[0].startswith(
        "no set of ties: no reader of what `running_maximum` overwrites can be tied to the kernel, and `sum` is"
    )
    assert "is not tied to the kernel: the kernel returns no floating-point array to tie with" in bisection.notes[0]
    assert bisection.trials == 1


def test_a_case_that_does_not_trace_is_the_user_s_error(runner: TrialRunner, load: Load, h100: Target) -> None:
    with pytest.raises(CaseError, match="untraceable"):
        bisect_edges(runner, load(UNTRACEABLE), h100, OPTIONS)


def test_the_limit_is_named_and_the_results_are_kept(runner: TrialRunner, load: Load, h100: Target) -> None:
    bisection = bisect_edges(runner, load(TWO_READERS), h100, make_options(Axis.EDGES, limit=2))
    assert bisection.answers[0] == "no minimal set of ties, out of 2 possible, was confirmed within 2 trials"
    assert "there may be other sets: `--limit` allows more than 2 trials" in bisection.notes


def test_ctrl_c_keeps_the_smallest_set_so_far(cache: Cache, load: Load, h100: Target) -> None:
    seen: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if progress.best:
            raise KeyboardInterrupt

    with TrialRunner(cache=cache, report_progress=interrupt) as runner:
        with pytest.raises(KeyboardInterrupt):
            bisect_edges(runner, load(TWO_READERS), h100, OPTIONS)
        assert runner.draft is not None
        bisection = runner.finish(runner.draft, interrupted=True)
    assert seen[-1].best == "right with 2 ties"
    assert [(row.label, row.word) for row in bisection.rows if row.is_answer] == [("ties 1, 2", "right")]
    assert bisection.answers[-1].startswith("ties 1 (")
    assert bisection.notes == ("the compiles so far are in the cache: run the same command again to continue",)
