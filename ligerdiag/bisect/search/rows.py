"""Rows of an axis: trials in batches, their numbers by replay and on devices, and the words for them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import batched

from ligerdiag.bisect.search.laboratory import Laboratory
from ligerdiag.bisect.search.trial import BisectOptions, Draft, Outcome, Trial
from ligerdiag.device.device_service import require_gpu, run_judged_cases
from ligerdiag.judgement.agreement import Agreement, compute_replay_agreements
from ligerdiag.judgement.answers import BisectionRow
from ligerdiag.model.findings import VERDICT_ORDER, DeviceRun, Replay, Verdict
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.render.terminal.diagnostics import render_agreement_word
from ligerdiag.render.terminal.spans import compute_text
from ligerdiag.replay.replay_service import ReplayOptions
from ligerdiag.rules.registry import get_rule
from ligerdiag.text import join_words


def compare_outputs(one: Mapping[str, Verdict], other: Mapping[str, Verdict]) -> tuple[str, ...]:
    """Such as `weight` stale -> fresh, one for each output that both have and whose verdict differs."""
    return tuple(
        f"`{name}` {one[name].value} -> {verdict.value}"
        for name, verdict in other.items()
        if name in one and one[name] is not verdict
    )


def make_row(
    outcome: Outcome,
    label: str,
    *,
    replay: Replay | None = None,
    cells: Mapping[str, str] | None = None,
    evidence: Sequence[tuple[str, str]] = (),
    is_answer: bool = False,
) -> BisectionRow:
    """Returns the row of one trial."""
    return BisectionRow(
        label=label,
        outputs=outcome.outputs,
        cells=dict(cells or {}),
        word=outcome.word,
        error=outcome.error,
        replay=describe_replay(outcome, replay),
        evidence=tuple(evidence),
        artifact="" if outcome.artifact is None else str(outcome.artifact.directory),
        is_answer=is_answer,
    )


def describe_replay(outcome: Outcome, replay: Replay | None) -> str:
    """Returns how the numbers compare with the verdicts: `agrees`, `lossy 0.25`, `too large`; empty if none were
    requested."""
    if replay is None or outcome.error:
        return ""
    return compute_text(render_agreement_word(outcome.outputs, replay, outcome.findings))


def has_disagreement(outcome: Outcome, replay: Replay) -> bool:
    """Returns whether verdicts and numbers cannot both be true, and no finding explains it."""
    return Agreement.DISAGREES in compute_replay_agreements(outcome.outputs, replay, outcome.findings).values()


def describe_wrong(outputs: Mapping[str, Verdict]) -> str:
    """Such as `bias` and `weight` are stale, `input` is latent; empty where all are fresh."""
    phrases: list[str] = []
    for verdict in reversed(VERDICT_ORDER):
        names = [f"`{name}`" for name, found in outputs.items() if found is verdict]
        if names and verdict is not Verdict.FRESH:
            phrases.append(f"{join_words(names)} {'is' if len(names) == 1 else 'are'} {verdict.value}")
    return ", ".join(phrases)


def explain_wrong(outcome: Outcome) -> tuple[str, ...]:
    """Returns a sentence for each finding that explains a verdict which is not fresh; the error if there is one."""
    if outcome.error:
        return (f"because {outcome.error}",)
    sentences = [
        f"because {finding.message} ({finding.rule})"
        for finding in outcome.findings
        if get_rule(finding.rule).explains in {outcome.outputs.get(name) for name in finding.outputs} - {None}
    ]
    return tuple(dict.fromkeys(sentences))


_BUG = "schedule and numbers cannot both be right, see DISAGREES: `ligerdiag check` lists the causes that are left"


def replay_outcomes(
    laboratory: Laboratory, draft: Draft, outcomes: Sequence[Outcome], options: BisectOptions | None
) -> tuple[Replay | None, ...]:
    """Returns the numbers of each outcome within the options' bounds; None for all when they are not requested.

    A contradiction makes the draft unsettled.
    """
    if options is None or not options.replay:
        return (None,) * len(outcomes)
    how = ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs)
    replays = laboratory.replay(outcomes, how)
    if any(has_disagreement(outcome, replay) for outcome, replay in zip(outcomes, replays, strict=True)):
        draft.is_unsettled = True
        draft.notes += [_BUG] if _BUG not in draft.notes else []
    return replays


ROUNDS = 2
"""Trials of a batch, for each worker."""


def try_in_batches(laboratory: Laboratory, trials: Sequence[Trial]) -> Iterator[tuple[Outcome, ...]]:
    """Yields what is known after each batch: the outcomes of the first trials, in order, in the end of all."""
    known: tuple[Outcome, ...] = ()
    for batch in batched(trials, ROUNDS * laboratory.jobs):
        known += laboratory.try_all(batch)
        yield known


DRAWS = 1
"""Number of different draws of the arguments: only times are measured here, and `check --device` looks closer."""


def require_device(options: BisectOptions) -> None:
    """Raises InputError if `--device` is given and there is no device. Called before anything is compiled."""
    if options.device:
        require_gpu(options.toolchain)


def run_on_device(laboratory: Laboratory, cases: Sequence[CaseSpec], options: BisectOptions) -> Mapping[str, DeviceRun]:
    """Id to run of each case. Nothing that is wrong with one is raised: it is in its `error`."""
    how = ReplayOptions(bounds=options.bounds, timeout=options.timeout, jobs=options.jobs)
    runs = run_judged_cases(
        cases,
        cache=laboratory.cache,
        effects=options.effects,
        replay=how if options.replay else None,
        timeout=options.timeout,
        draws=lambda case: DRAWS,
        tell=laboratory.tell,
    )
    return {case.id: run for case, run in runs}
