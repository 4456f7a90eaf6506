"""The key of a trial, and the verdict of its outcome."""

import pytest

from ligerdiag.bisect.trials import Outcome, Trial
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec, Source, Variation
from ligerdiag.toolchains.gpu_targets import load_target

CASE = CaseSpec(
    id="a", name="a", params=(), source=Source(file="/a.py", root="/"), mesh={}, expected=None, about="", draws=""
)
TRIAL = Trial(case=CASE, target=load_target("h100"))


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        (("fresh", "fresh"), "right"),
        (("fresh", "latent"), "latent"),
        (("latent", "unknown"), "unknown"),
        (("unknown", "clobbered"), "wrong"),
        (("stale", "fresh"), "wrong"),
        ((), "unknown"),
    ],
)
def test_a_trial_s_verdict_is_that_of_its_worst_output(verdicts: tuple[str, ...], word: str) -> None:
    outputs = {f"o{number}": Verdict(verdict) for number, verdict in enumerate(verdicts)}
    outcome = Outcome(trial=TRIAL, outputs=outputs)
    assert outcome.word == word
    assert outcome.is_right is (word == "right")


def test_an_error_is_unknown_whatever_the_outputs() -> None:
    assert Outcome(trial=TRIAL, outputs={"loss": Verdict.FRESH}, error="aborted").word == "unknown"


@pytest.mark.parametrize(
    ("meant", "keeps"),
    [({"a": 0b01}, True), ({"a": 0b11}, True), ({"a": 0b10}, False), ({"b": 0b01}, False), ({}, False)],
)
def test_an_output_may_depend_on_more_writes_than_before_but_not_on_fewer(meant: dict[str, int], keeps: bool) -> None:
    assert Outcome(trial=TRIAL, meant=meant).wants({"a": 0b01}) is keeps


def test_trials_that_compile_the_same_have_one_key() -> None:
    def key(**changes: object) -> object:
        return Trial(case=CASE, target=TRIAL.target, variation=Variation(**changes)).key  # type: ignore[arg-type]

    assert key(ties=("b", "a", "a")) == key(ties=("a", "b"))
    assert key(flags={"x": 1, "y": 2}) == key(flags={"y": 2, "x": 1})
    assert key(flags={"x": 1}) != key(flags={"x": True})
    assert key(ties=("a",)) != key()
    assert Trial(case=CASE, target=load_target("a100")).key != TRIAL.key
    assert Trial(case=CASE, target=TRIAL.target, toolchain="seed").key != TRIAL.key
