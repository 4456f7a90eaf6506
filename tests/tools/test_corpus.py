"""The corpus of programs with known words: what counts as worse, and that nothing is."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import Verdict
from tools import corpus
from tools.fuzz.judged_programs import JudgedProgram


def test_each_word_has_its_letter() -> None:
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


def test_what_was_right_before_and_is_not_now_is_named() -> None:
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


def test_words_of_other_programs_are_refused(tmp_path: Path) -> None:
    path, words = tmp_path / "corpus.txt", {5: "rw", 3: "r-"}
    corpus.write_corpus(path, words)
    assert corpus.read_corpus(path) == words
    path.write_text("# 00\n" + path.read_text().partition("\n")[2])
    with pytest.raises(corpus.CorpusError, match="draws other programs now"):
        corpus.read_corpus(path)


def test_the_programs_kept_here_are_those_that_are_drawn_now() -> None:
    assert len(corpus.read_corpus(corpus.CORPUS)) > 10_000


def test_what_xla_slices_out_of_a_joined_product_is_that_product() -> None:
    """XLA scales the other operand of `v18` instead of the product, which a kernel overwrites, and takes the product from
    before the kernel, out of three that are joined."""
    words = {seed: letters for seed, letters in corpus.read_corpus(corpus.CORPUS).items() if seed == 723082}
    (verdicts,) = corpus.judge(words, jobs=1)
    assert corpus.compare(verdicts, words).missed == ()


@pytest.mark.nightly
def test_no_mend_has_broken_others() -> None:
    words = dict(sorted(corpus.read_corpus(corpus.CORPUS).items())[::40])
    found = corpus.compare({seed: one for batch in corpus.judge(words) for seed, one in batch.items()}, words)
    assert (found.missed, found.alarms) == ((), ())
    assert found.programs == len(words)
