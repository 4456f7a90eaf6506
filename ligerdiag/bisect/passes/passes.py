"""Finds the XLA pass that makes outputs wrong: judges the snapshots of one compile, and compiles without each pass to
blame."""

from collections.abc import Iterable, Mapping, Sequence

from ligerdiag.bisect.passes.answers import PassAnswer, PassBlame, describe_answers, explain_output, name_step
from ligerdiag.bisect.passes.history import History, judge_history, list_snapshots
from ligerdiag.bisect.passes.step_evidence import Evidence
from ligerdiag.bisect.search.laboratory import Laboratory
from ligerdiag.bisect.search.rows import make_row
from ligerdiag.bisect.search.trial import BisectOptions, Draft, Outcome, Trial
from ligerdiag.effects.declared import parse_declared
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import ArtifactError, describe_error
from ligerdiag.judgement.answers import Axis, Bisection, BisectionRow
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.model.report import Progress
from ligerdiag.text import join_words
from ligerdiag.toolchains.gpu_targets import Target

DUMP = {"xla_dump_hlo_pass_re": ".*"}
SHARED = "LD024"
"""Id of the rule that finds two values in the same bytes."""
DISABLE = "xla_disable_hlo_passes"
COLUMNS = ("snapshot", "without it")
_ONE_FLAG = "Field is repeated"
"""An older XLA's error for a list among the options of one compile."""
_NO_COMPILE = " does not compile: "
"""In the error of a compile that XLA has refused."""


def bisect_passes(laboratory: Laboratory, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Returns the pass that loses each output, or fixes its order, with what becomes of it without that pass."""
    draft = laboratory.open_draft(case, target.name, Axis.PASSES, toolchain=options.toolchain, columns=COLUMNS)
    trial = Trial(case=case, target=target, toolchain=options.toolchain, variation=Variation(flags=DUMP))
    outcome = laboratory.try_one(trial)
    draft.rows.append(make_row(outcome, "as compiled"))
    shared = _list_shared(outcome)
    bad = {name: verdict for name, verdict in _list_bad(outcome).items() if name not in shared}
    if shared:
        names = join_words([f"`{name}`" for name in shared])
        draft.answers.append(
            f"XLA has two values that {names} {'depends' if len(shared) == 1 else 'depend'} on in the same bytes ({SHARED}):"
            " no snapshot shows bytes, and `--over flags` looks for a flag without it"
        )
    if outcome.error or outcome.artifact is None or not bad:
        draft.is_unsettled = bool(outcome.error)
        is_fresh = not outcome.error and not shared
        draft.answers += ["every output is fresh: there is no pass to look for"] if is_fresh else []
        return laboratory.finish(draft)
    effects = CallEffectsReader(
        cache=laboratory.cache.root / "effects",
        declared=(*options.effects, *parse_declared(case)),
        readers=laboratory.find_readers(options.toolchain),
    )
    try:
        history = _judge(laboratory, outcome, effects)
    except ArtifactError as error:
        draft.notes.append(describe_error(error))
        draft.is_unsettled = True
        return laboratory.finish(draft)
    answers = [explain_output(history, output, verdict) for output, verdict in bad.items()]
    _write_rows(draft, outcome, history, answers, {})
    draft.answers += describe_answers(answers)
    draft.notes += _list_notes(history)
    draft.is_unsettled = any(answer.blame is PassBlame.UNTOLD for answer in answers)
    without = _try_without(laboratory, trial, answers)
    _write_rows(draft, outcome, history, answers, without)
    for name, other in without.items():
        draft.answers += _describe_without(laboratory, name, other, answers, effects)
    return laboratory.finish(draft)


def _list_bad(outcome: Outcome) -> dict[str, Verdict]:
    return {name: verdict for name, verdict in outcome.outputs.items() if verdict is not Verdict.FRESH}


def _list_shared(outcome: Outcome) -> tuple[str, ...]:
    """Returns the names of the outputs that shared bytes make clobbered."""
    names = [name for finding in outcome.findings if finding.rule == SHARED for name in finding.outputs]
    return tuple([name for name in dict.fromkeys(names) if outcome.outputs.get(name) is Verdict.CLOBBERED])


def _judge(laboratory: Laboratory, outcome: Outcome, effects: CallEffectsReader) -> History:
    assert outcome.artifact is not None
    trial = outcome.trial

    def tell(done: int, total: int) -> None:
        laboratory.tell(
            Progress(
                phase="analyse",
                event="finished" if done == total else "started",
                done=done,
                total=total,
                case_id=trial.case.id,
                target=trial.target.name,
                best=laboratory.best,
            )
        )

    return judge_history(outcome.artifact, effects, tell)


def _try_without(laboratory: Laboratory, trial: Trial, answers: Iterable[PassAnswer]) -> Mapping[str, Outcome]:
    """Returns a map from the name of each pass to blame to the outcome of the compile without it."""
    names = list(dict.fromkeys(step.name for answer in answers for step in answer.steps if step.name))
    laboratory.best = join_words(names)
    trials = [
        Trial(
            case=trial.case,
            target=trial.target,
            toolchain=trial.toolchain,
            variation=Variation(flags={**DUMP, DISABLE: name}),
        )
        for name in names
    ]
    return dict(zip(names, laboratory.try_all(trials), strict=True))


def _write_rows(
    draft: Draft,
    outcome: Outcome,
    history: History,
    answers: Sequence[PassAnswer],
    without: Mapping[str, Outcome],
) -> None:
    """A row for each moment; outputs that are fresh in the end say nothing by changing on the way."""
    bad = _list_bad(outcome)
    rows: list[BisectionRow] = []
    shown: tuple[Verdict, ...] = ()
    for number, moment in enumerate(history.moments):
        verdicts = moment.after.verdicts
        blamed = [answer for answer in answers if moment in (answer.moment, answer.loosened)]
        settled = [answer for answer in answers if moment is answer.since]
        now = tuple(verdicts[name] for name in bad)
        if number and now == shown and not blamed and not settled:
            continue
        shown = now
        step = moment.step
        cells = {"snapshot": f"{step.number:04d}"} if step is not None and step.number >= 0 else {}
        if blamed and step is not None and moment.before is not None:
            cells["without it"] = _describe_word(step.name, without.get(step.name))
        row = make_row(
            Outcome(trial=outcome.trial, outputs=verdicts),
            step.label if step is not None else "as XLA got it",
            cells=cells,
            evidence=_join_evidence(settled),
            is_answer=bool(blamed or settled),
        )
        rows.append(row)
    rows.append(make_row(outcome, "as compiled"))
    draft.rows[:] = rows


def _join_evidence(answers: Iterable[PassAnswer]) -> list[tuple[str, str]]:
    """Joins evidence that several outputs share into one entry, after their names."""
    groups: dict[Evidence, list[str]] = {}
    for answer in answers:
        groups.setdefault(answer.evidence, []).append(answer.output)
    return [
        (", ".join(outputs) if number == 0 else label, sentence)
        for evidence, outputs in groups.items()
        for number, (label, sentence) in enumerate(evidence)
    ]


def _describe_word(name: str, outcome: Outcome | None) -> str:
    if not name:
        return "no pass"
    if outcome is None:
        return ""
    if outcome.error:
        if _ONE_FLAG in outcome.error:
            return "cannot be tried"
        return "does not compile" if _NO_COMPILE in outcome.error else "no verdict"
    return "cannot be disabled" if _still_runs(name, outcome) else outcome.word


def _still_runs(name: str, outcome: Outcome) -> bool:
    """Returns whether the pass has changed something although it was disabled."""
    passes = () if outcome.artifact is None else outcome.artifact.passes
    return any(
        name == (snapshot.after if snapshot.before else snapshot.pipeline) for snapshot in list_snapshots(passes)
    )


def _describe_without(
    laboratory: Laboratory, name: str, outcome: Outcome, answers: Sequence[PassAnswer], effects: CallEffectsReader
) -> list[str]:
    """Describes how the outputs that the pass is to blame for come out without it, a sentence for each answer."""
    blamed = [answer.output for answer in answers if any(step.name == name for step in answer.steps)]
    head = f"without `{name}` (`{DISABLE}={name}`)"
    if outcome.error or outcome.artifact is None:
        if _ONE_FLAG in outcome.error:
            return [
                f"what comes without `{name}` was not tried: this XLA does not take `{DISABLE}` for a single compile"
            ]
        if _NO_COMPILE in outcome.error:
            return [f"{head} XLA does not compile the case: {outcome.error.partition(_NO_COMPILE)[2]}"]
        return [f"{head} there is no verdict: {outcome.error}"]
    if _still_runs(name, outcome):
        return [f"`{name}` cannot be disabled: it runs with `{DISABLE}={name}`, too"]
    groups: dict[tuple[Verdict, str], list[str]] = {}
    history = None
    for output in blamed:
        verdict = outcome.outputs[output]
        then = ""
        if verdict in (Verdict.STALE, Verdict.CLOBBERED):
            history = history or _judge(laboratory, outcome, effects)
            other = explain_output(history, output, verdict)
            if other.moment is not None:
                verb = "loses it" if other.blame is PassBlame.LOST else "fixes the wrong order"
                then = f", for then {name_step(other.moment.step)} {verb}"
        groups.setdefault((verdict, then), []).append(f"`{output}`")
    return [
        f"{head} {join_words(outputs)} {'is' if len(outputs) == 1 else 'are'} {verdict.value}{then}"
        for (verdict, then), outputs in groups.items()
    ]


def _list_notes(history: History) -> list[str]:
    notes = [f"{history.snapshots} snapshots, {history.judged} of them different"]
    if history.skipped:
        notes.append(f"{len(history.skipped)} snapshots were not judged, the first of them `{history.skipped[0]}`")
    return notes
