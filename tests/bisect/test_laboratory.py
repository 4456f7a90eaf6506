"""Real trials: each is compiled once, and what is wrong with one is in its outcome."""

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.search.laboratory import Laboratory
from ligerdiag.bisect.search.trial import Trial
from ligerdiag.errors import CaseError
from ligerdiag.judgement.answers import Axis
from ligerdiag.model.findings import ReplayState, Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.model.report import Progress
from ligerdiag.toolchains.gpu_targets import Target, load_target
from tests.bisect.conftest import Load, ignore
from tests.bisect.programs import TWO_READERS, UNTRACEABLE


@pytest.fixture(scope="module")
def trial(load: Load, h100: Target) -> Trial:
    return Trial(case=load(TWO_READERS), target=h100)


def test_outcomes_come_in_the_order_asked_and_equal_trials_are_one(laboratory: Laboratory, trial: Trial) -> None:
    other = Trial(case=trial.case, target=load_target("a100"))
    plain = Trial(
        case=trial.case, target=trial.target, variation=Variation(flags={"xla_gpu_enable_triton_gemm": False})
    )
    outcomes = laboratory.try_all([other, trial, plain, trial])
    assert [outcome.trial for outcome in outcomes] == [other, trial, plain, trial]
    assert outcomes[1] is outcomes[3]
    artifacts = [outcome.artifact for outcome in outcomes]
    assert [artifact.provenance.target for artifact in artifacts if artifact] == ["a100", "h100", "h100", "h100"]
    assert outcomes[2].artifact is not None
    assert outcomes[2].artifact.provenance.flags["xla_gpu_enable_triton_gemm"] is False
    assert outcomes[1].outputs["last"] is Verdict.FRESH
    assert [(one.kernel, one.operand) for one in outcomes[1].written] == [("running_maximum", 0)]


def test_nothing_is_compiled_twice_by_one_laboratory_or_the_next(
    laboratory: Laboratory, cache: Cache, trial: Trial
) -> None:
    first = laboratory.try_one(trial)
    before = laboratory.trials, laboratory.compiled
    assert laboratory.try_one(trial) is first
    assert (laboratory.trials, laboratory.compiled) == before
    with Laboratory(cache=cache, tell=ignore) as another:
        again = another.try_one(trial)
        assert again.cached
        assert (another.trials, another.compiled) == (1, 0)
        assert again.outputs == first.outputs


def test_what_does_not_trace_is_an_outcome_with_an_error(laboratory: Laboratory, load: Load, h100: Target) -> None:
    outcome = laboratory.try_one(Trial(case=load(UNTRACEABLE), target=h100))
    assert outcome.word == "unknown"
    assert outcome.exit_code == CaseError.exit_code
    assert "untraceable" in outcome.error
    (replay,) = laboratory.replay([outcome])
    assert replay.state is ReplayState.NOT_ASKED


def test_numbers_come_in_the_order_of_the_outcomes(laboratory: Laboratory, load: Load, trial: Trial) -> None:
    bad = Trial(case=load(UNTRACEABLE), target=trial.target)
    replays = laboratory.replay(laboratory.try_all([bad, trial]))
    assert [replay.state for replay in replays] == [ReplayState.NOT_ASKED, ReplayState.DONE]
    assert set(replays[1].outputs) == {"last", "sum", "product"}


def test_progress_tells_of_every_trial_and_the_best_so_far(cache: Cache, trial: Trial) -> None:
    told: list[Progress] = []
    with Laboratory(cache=cache, tell=told.append) as laboratory:
        laboratory.best = "right with 2 ties"
        laboratory.try_one(trial)
    tries = [one for one in told if one.phase == "try"]
    assert [(one.event, one.done, one.total, one.cached) for one in tries] == [
        ("started", 0, 1, False),
        ("finished", 1, 1, True),
    ]
    assert {one.best for one in tries} == {"right with 2 ties"}


def test_ctrl_c_ends_the_workers_and_leaves_what_was_known(cache: Cache, load: Load, h100: Target) -> None:
    case: CaseSpec = load(TWO_READERS)
    trials = [
        Trial(case=case, target=h100, variation=Variation(flags={"xla_gpu_autotune_level": level})) for level in (0, 1)
    ]

    def interrupt(progress: Progress) -> None:
        if progress.phase == "try" and progress.event == "finished":
            raise KeyboardInterrupt

    with Laboratory(cache=cache, jobs=1, tell=interrupt) as laboratory:
        draft = laboratory.open_draft(case, "h100", Axis.FLAGS)
        draft.answers.append("known")
        with pytest.raises(KeyboardInterrupt):
            laboratory.try_all(trials)
        assert laboratory.trials == 1
        assert laboratory.draft is draft
        bisection = laboratory.finish(draft, interrupted=True)
    assert (bisection.interrupted, bisection.answers, bisection.trials) == (True, ("known",), 1)


def test_a_draft_counts_its_own_trials(laboratory: Laboratory, trial: Trial) -> None:
    laboratory.try_one(trial)
    draft = laboratory.open_draft(trial.case, "h100", Axis.EDGES)
    laboratory.try_one(trial)
    assert laboratory.finish(draft).trials == 0
