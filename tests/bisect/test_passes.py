"""Real bisections over passes, compared with a manual reading of each step's HLO."""

from collections.abc import Mapping

import pytest

from ligerdiag.bisect.passes import bisect_passes
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.model.findings import Verdict
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow
from ligerdiag.toolchains.gpu_targets import Target
from tests.bisect.conftest import Load, make_options
from tests.bisect.programs import NO_READER, make_file

pytestmark = pytest.mark.xdist_group("bisect")

FRESH, LATENT, STALE = Verdict.FRESH, Verdict.LATENT, Verdict.STALE
CASES = (
    "seed_flce[False-float32-True-1-4-32-16]",
    "bf16_flce[False-True-1-4-32-16]",
    "sharded_flce[vocabulary-trivial]",
)
FOLDED_BEFORE_XLA = make_file(
    "folded", 'row = jax.numpy.zeros((8,))\nlast = overwrite(row)\nreturn {"last": last, "one": row + 1, "x": x * y}'
)


@pytest.fixture(scope="module")
def bisections(runner: TrialRunner, h100: Target) -> Mapping[str, Bisection]:
    options = make_options(Axis.PASSES)
    return {case.name: bisect_passes(runner, case, h100, options) for case in runner.discover(CASES)}


def answers(bisection: Bisection) -> dict[str, BisectionRow]:
    return {row.label: row for row in bisection.rows if row.is_answer}


def sentences(row: BisectionRow, label: str) -> list[str]:
    return [sentence for found, sentence in row.evidence if found == label]


def test_the_pass_that_folds_the_convert_is_named(bisections: Mapping[str, Bisection]) -> None:
    row = answers(bisections["bf16_flce"])["algsimp in pre-spmd-partitioner"]
    assert row.outputs == {"bias": STALE, "input": STALE, "loss": FRESH, "weight": STALE}
    before, after = sentences(row, "before")[0], sentences(row, "after")[0]
    assert "multiply(convert_element_type_ld54" in before
    assert "reads the overwritten value" in before
    assert "multiply(add_ld40" in after
    assert "what is overwritten is another value made from it: `convert_element_type_ld52" in after


def test_without_the_folding_pass_other_passes_are_named(bisections: Mapping[str, Bisection]) -> None:
    bisection = bisections["bf16_flce"]
    assert answers(bisection)["algsimp in pre-spmd-partitioner"].cells["without it"] == "wrong"
    without = [answer for answer in bisection.answers if answer.startswith("without `algsimp`")]
    assert any("`weight` is stale, because `simplify-fp-conversions`" in answer for answer in without)
    assert any("`input` is stale, because `triton-gemm-rewriter`" in answer for answer in without)


def test_a_value_that_a_later_pass_restores_is_not_lost(bisections: Mapping[str, Bisection]) -> None:
    """Common subexpression elimination merges the reader's own convert with the one that the kernel overwrites."""
    (answer,) = [answer for answer in bisections["bf16_flce"].answers if answer.startswith("`bias` is latent")]
    assert "right by luck: the program as XLA got it does not force the order" in answer
    assert "`algsimp` (0003, in `pre-spmd-partitioner`) lost it" in answer
    assert "`cse`" in answer


def test_the_partitioner_is_named_if_the_kernel_gets_a_gathered_copy(bisections: Mapping[str, Bisection]) -> None:
    bisection = bisections["sharded_flce"]
    ((label, row),) = answers(bisection).items()
    assert label == "spmd-partitioning in spmd-partitioner"
    assert {name for name, verdict in row.outputs.items() if verdict is STALE} == {"bias", "input", "weight"}
    assert set(bisection.rows[0].outputs.values()) == {FRESH}
    (after,) = sentences(row, "after")
    assert "what is overwritten is another value made from it: `all-gather" in after
    assert row.cells["without it"] in ("no verdict", "does not compile")
    assert any("without `spmd-partitioning`" in answer for answer in bisection.answers)


def test_the_scheduler_is_named_if_nothing_forces_the_order(bisections: Mapping[str, Bisection]) -> None:
    bisection = bisections["seed_flce"]
    row = answers(bisection)["latency-hiding-scheduler"]
    assert row.outputs == {"bias": STALE, "input": STALE, "loss": FRESH, "weight": LATENT}
    assert row.cells["without it"] == "latent"
    for before, after in zip(sentences(row, "before"), sentences(row, "after"), strict=True):
        assert [_comes_after(text) for text in (before, after)] == [True, False]
    assert len(sentences(row, "at first")) == 2
    assert "`weight` is latent, right by luck: the program as XLA got it does not force the order" in bisection.answers


def _comes_after(text: str) -> bool:
    """Returns whether the reader's time is later than the kernel's."""
    reader, kernel = (int(part.rpartition(" ")[2]) for part in text.split(", "))
    return reader > kernel


def test_every_output_that_is_not_fresh_has_an_answer_with_evidence(bisections: Mapping[str, Bisection]) -> None:
    for bisection in bisections.values():
        assert not bisection.is_unsettled
        outputs = bisection.rows[-1].outputs
        shown = {label for row in bisection.rows for label, _ in row.evidence}
        for name, verdict in outputs.items():
            assert (verdict is FRESH) != any(f"`{name}`" in answer for answer in bisection.answers)
            assert (verdict is FRESH) != any(name in label.split(", ") for label in shown)


def test_no_pass_is_to_blame_for_a_value_lost_before_xla(runner: TrialRunner, load: Load, h100: Target) -> None:
    bisection = bisect_passes(runner, load(FOLDED_BEFORE_XLA), h100, make_options(Axis.PASSES))
    assert bisection.rows[0].label == "as XLA got it"
    assert bisection.rows[0].is_answer
    assert bisection.answers == (
        "`one` is stale already in the program that XLA got: what the kernel wrote was lost before, and no pass"
        " is to blame",
    )
    assert bisection.trials == 1


def test_if_every_output_is_fresh_no_pass_is_searched_for(runner: TrialRunner, load: Load, h100: Target) -> None:
    bisection = bisect_passes(runner, load(NO_READER), h100, make_options(Axis.PASSES))
    assert bisection.answers == ("every output is fresh: there is no pass to look for",)
    assert [row.word for row in bisection.rows] == ["right"]


def test_a_case_that_does_not_compile_has_no_complete_answer(runner: TrialRunner, load: Load, h100: Target) -> None:
    bisection = bisect_passes(runner, load(make_file("broken", "return missing")), h100, make_options(Axis.PASSES))
    assert bisection.is_unsettled
    assert "missing" in bisection.rows[0].error
