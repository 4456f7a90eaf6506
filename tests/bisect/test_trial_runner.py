"""Real trials: each is compiled once, and its failure is in its outcome."""

from dataclasses import replace

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.trials import Trial, TrialRunner, describe_replay, has_disagreement
from ligerdiag.effects.declared import parse_declarations
from ligerdiag.errors import CaseError
from ligerdiag.model.findings import Attribution, ReplayState, Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.model.report import Progress
from ligerdiag.report.comparisons import Axis
from ligerdiag.toolchains.gpu_targets import Target, load_target
from tests.bisect.conftest import Load, ignore
from tests.bisect.programs import TWO_READERS, UNTRACEABLE


@pytest.fixture(scope="module")
def trial(load: Load, h100: Target) -> Trial:
    return Trial(case=load(TWO_READERS), target=h100)


def test_outcomes_come_in_the_requested_order_and_equal_trials_run_once(runner: TrialRunner, trial: Trial) -> None:
    other = Trial(case=trial.case, target=load_target("a100"))
    plain = Trial(
        case=trial.case, target=trial.target, variation=Variation(flags={"xla_gpu_enable_triton_gemm": False})
    )
    outcomes = runner.try_all([other, trial, plain, trial])
    assert [outcome.trial for outcome in outcomes] == [other, trial, plain, trial]
    assert outcomes[1] is outcomes[3]
    artifacts = [outcome.artifact for outcome in outcomes]
    assert [artifact.provenance.target for artifact in artifacts if artifact] == ["a100", "h100", "h100", "h100"]
    assert outcomes[2].artifact is not None
    assert outcomes[2].artifact.provenance.flags["xla_gpu_enable_triton_gemm"] is False
    assert outcomes[1].outputs["last"] is Verdict.FRESH
    assert [(one.kernel, one.operand) for one in outcomes[1].written] == [("running_maximum", 0)]


def test_nothing_is_compiled_twice_by_one_runner_or_the_next(runner: TrialRunner, cache: Cache, trial: Trial) -> None:
    first = runner.try_one(trial)
    before = runner.trials, runner.compiled
    assert runner.try_one(trial) is first
    assert (runner.trials, runner.compiled) == before
    with TrialRunner(cache=cache, report_progress=ignore) as another:
        again = another.try_one(trial)
        assert again.cached
        assert (another.trials, another.compiled) == (1, 0)
        assert again.outputs == first.outputs


def test_a_case_that_does_not_trace_is_an_outcome_with_an_error(runner: TrialRunner, load: Load, h100: Target) -> None:
    outcome = runner.try_one(Trial(case=load(UNTRACEABLE), target=h100))
    assert outcome.word == "unknown"
    assert outcome.exit_code == CaseError.exit_code
    assert "untraceable" in outcome.error
    (replay,) = runner.replay([outcome])
    assert replay.state is ReplayState.NOT_ASKED


def test_numbers_come_in_the_order_of_the_outcomes(runner: TrialRunner, load: Load, trial: Trial) -> None:
    bad = Trial(case=load(UNTRACEABLE), target=trial.target)
    replays = runner.replay(runner.try_all([bad, trial]))
    assert [replay.state for replay in replays] == [ReplayState.NOT_ASKED, ReplayState.DONE]
    assert set(replays[1].outputs) == {"last", "sum", "product"}


def test_progress_shows_every_trial_and_the_best_result_so_far(cache: Cache, trial: Trial) -> None:
    answered: list[Progress] = []
    with TrialRunner(cache=cache, report_progress=answered.append) as runner:
        runner.best = "right with 2 ties"
        runner.try_one(trial)
    tries = [one for one in answered if one.phase == "try"]
    assert [(one.event, one.done, one.total, one.cached) for one in tries] == [
        ("started", 0, 1, False),
        ("finished", 1, 1, True),
    ]
    assert {one.best for one in tries} == {"right with 2 ties"}


def test_ctrl_c_ends_the_workers_and_keeps_the_results_so_far(cache: Cache, load: Load, h100: Target) -> None:
    case: CaseSpec = load(TWO_READERS)
    trials = [
        Trial(case=case, target=h100, variation=Variation(flags={"xla_gpu_autotune_level": level})) for level in (0, 1)
    ]

    def interrupt(progress: Progress) -> None:
        if progress.phase == "try" and progress.event == "finished":
            raise KeyboardInterrupt

    with TrialRunner(cache=cache, jobs=1, report_progress=interrupt) as runner:
        draft = runner.open_draft(case, "h100", Axis.FLAGS)
        draft.answers.append("known")
        with pytest.raises(KeyboardInterrupt):
            runner.try_all(trials)
        assert runner.trials == 1
        assert runner.draft is draft
        bisection = runner.finish(draft, interrupted=True)
    assert (bisection.interrupted, bisection.answers, bisection.trials) == (True, ("known",), 1)


def test_a_draft_counts_its_own_trials(runner: TrialRunner, trial: Trial) -> None:
    runner.try_one(trial)
    draft = runner.open_draft(trial.case, "h100", Axis.EDGES)
    runner.try_one(trial)
    assert runner.finish(draft).trials == 0


FOREIGN = """
import jax
from ligerdiag import Arg, Case


def scale(x):
    half = x * 0.5
    made = jax.ffi.ffi_call("my_scale", jax.ShapeDtypeStruct(x.shape, x.dtype))(half)
    return {"made": made, "read": jax.numpy.cumsum(half)}


CASE = Case(function=scale, args=(Arg(shape=(64,)),), name="scale")
"""


def test_a_call_that_replay_does_not_cover_is_replayed_with_opaque_functions(
    cache: Cache, load: Load, h100: Target
) -> None:
    declared = parse_declarations({"my_scale": {"writes": [0]}})
    with TrialRunner(cache=cache, report_progress=ignore, declared=declared) as runner:
        outcome = runner.try_one(Trial(case=load(FOREIGN), target=h100))
        (replay,) = runner.replay([outcome])
    assert (replay.state, replay.opaque is not None) == (ReplayState.NOT_COVERED, True)
    assert describe_replay(outcome, replay) == "not covered, opaque agrees"
    assert not has_disagreement(outcome, replay)
    assert replay.opaque is not None
    turned = {
        name: replace(one, attribution=Attribution.FRESH if one.attribution.is_wrong else Attribution.STALE)
        for name, one in replay.opaque.outputs.items()
    }
    assert has_disagreement(outcome, replace(replay, opaque=replace(replay.opaque, outputs=turned)))
