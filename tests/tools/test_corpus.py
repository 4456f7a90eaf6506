"""The corpus of programs with known verdicts: the definition of a regression, and that there is none."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import Verdict
from tools import corpus
from tools.fuzz.judged_programs import JudgedProgram


def test_each_verdict_has_its_letter() -> None:
    row = JudgedProgram(
        seed=7,
        target="h100",
        outputs={
            "b": ("stale", "fresh"),
            "a": ("fresh", "fresh"),
            "c": ("clobbered", "neither"),
            "d": ("stale", "none"),
        },
        looks={"a": ("right", 0.1), "b": ("right", 0.2), "c": ("wrong", 90.0)},
    )
    assert corpus.spell(row) == "rxw-"


def test_regressions_are_named() -> None:
    outputs = {
        "a": Verdict.STALE,
        "b": Verdict.STALE,
        "c": Verdict.LATENT,
        "d": Verdict.UNKNOWN,
        "e": Verdict.CLOBBERED,
        "f": Verdict.FRESH,
    }
    found = corpus.compare({7: outputs}, {7: "rxwww-"})
    assert found.missed == ("7 c is latent",)
    assert found.alarms == ("7 a is stale",)
    assert (found.wrong, found.right, found.known_alarms) == (3, 2, 1)


def test_letters_of_other_outputs_are_refused() -> None:
    with pytest.raises(corpus.CorpusError, match="program 7 has 1 outputs, and 2 letters"):
        corpus.compare({7: {"a": Verdict.FRESH}}, {7: "rr"})


def test_letters_of_other_programs_are_refused(tmp_path: Path) -> None:
    path, words = tmp_path / "corpus.txt", {5: "rw", 3: "r-"}
    corpus.write_corpus(path, words)
    assert corpus.read_corpus(path) == words
    path.write_text("# 00\n" + path.read_text().partition("\n")[2])
    with pytest.raises(corpus.CorpusError, match="draws other programs now"):
        corpus.read_corpus(path)


def test_the_stored_corpus_matches_the_current_generator() -> None:
    assert len(corpus.read_corpus(corpus.CORPUS)) > 10_000


def test_each_slice_of_a_merged_product_is_the_product_that_it_replaces() -> None:
    """XLA scales the other operand of `v18` instead of the product that a kernel overwrites. It takes the product
    before the kernel as a slice of three merged products.
    """
    words = {seed: letters for seed, letters in corpus.read_corpus(corpus.CORPUS).items() if seed == 723082}
    (verdicts,) = corpus.judge(words, jobs=1)
    assert corpus.compare(verdicts, words).missed == ()


@pytest.mark.nightly
def test_no_fix_has_broken_other_programs() -> None:
    words = dict(sorted(corpus.read_corpus(corpus.CORPUS).items())[::40])
    found = corpus.compare({seed: one for batch in corpus.judge(words) for seed, one in batch.items()}, words)
    assert (found.missed, found.alarms) == ((), ())
    assert found.programs == len(words)
