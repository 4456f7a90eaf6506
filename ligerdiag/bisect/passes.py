"""Finds the pass of XLA that makes an output wrong.

The modules that XLA wrote between passes (snapshots) are judged, and the case is compiled again without each pass to blame.
If an output is not fresh in the end, its order sensitivity in the last snapshots decides which step is to blame. It is
*forced* if the output is right under every schedule, *open* if some schedules make it right, *lost* if none does.

    lost     no schedule can make it right any more: the step after which it stayed lost is to blame
    ordered  it is not lost: the step that chose the wrong order is to blame
    latent   it is not lost, and right by luck: no step is to blame for the order

If the order was forced at first and the output is not lost, the answer also names the step that loosened the order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.bisect.evidence import (
    Evidence,
    describe_loosening,
    describe_loss,
    describe_openness,
    describe_order,
)
from ligerdiag.bisect.snapshots import (
    CompilerStep,
    History,
    OrderSensitivity,
    SensitivityChange,
    judge_history,
    list_snapshots,
)
from ligerdiag.bisect.trials import Draft, Outcome, Trial, TrialRunner, make_row
from ligerdiag.effects.declared import parse_declared
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.errors import ArtifactError, describe_error
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.model.report import Progress
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow
from ligerdiag.rules.registry import get_only_id
from ligerdiag.rules.rule import RuleKind
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import join_words
from ligerdiag.toolchains.gpu_targets import Target

DUMP = {"xla_dump_hlo_pass_re": ".*"}
_SHARED_BYTES = get_only_id(RuleKind.SHARED_BYTES)
"""Id of the rule that finds two values in the same bytes."""
DISABLE = "xla_disable_hlo_passes"
COLUMNS = ("snapshot", "without it")
_ONE_FLAG = "Field is repeated"
"""Part of the error of an older XLA, which takes no lists among the options of one compile."""
_NO_COMPILE = " does not compile: "
"""Part of the error of a compile that XLA refused."""


class PassBlame(StrEnum):
    """The reason why an output is not fresh. A step of XLA loses the value or chooses the wrong order, nothing forces the
    order, or the reason is unknown.
    """

    LOST = "lost"
    ORDERED = "ordered"
    LATENT = "latent"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassAnswer:
    """The reason why one output is not fresh, with the steps of XLA that are to blame."""

    output: str
    verdict: Verdict
    blame: PassBlame
    change: SensitivityChange | None
    """The change after which the output is lost or wrongly ordered. The step of this change is to blame; the change has no
    step if the output is lost already in the program that XLA got. None if the output is right by luck, or if the reason is
    unknown.
    """
    loosened: SensitivityChange | None = None
    """The change after which nothing forces the order any more, although something forced the order just before it. None if
    there is no such change, or if the output is lost.
    """
    was: OrderSensitivity | None = None
    """The output's order sensitivity (forced, open or lost) before the step to blame."""
    evidence: Evidence = ()

    since: SensitivityChange | None = None
    """The change in whose row the evidence is shown. It is `change`, or for an output that is right by luck the change from
    which on the order is open. None if the reason is unknown.
    """
    detours: tuple[tuple[CompilerStep | None, CompilerStep], ...] = ()
    """Pairs of a step that lost the output for a while (None: the translation to HLO) and the step that restored it."""

    @property
    def steps(self) -> tuple[CompilerStep, ...]:
        """Returns the steps of XLA that are to blame. The step that made the output wrong comes before one that loosened the
        order.
        """
        found = [one for one in (self.change, self.loosened) if one is not None and one.before is not None]
        return tuple(one.step for one in found if one.step is not None)


def explain_output(history: History, output: str, verdict: Verdict) -> PassAnswer:
    """Returns why an output is not fresh, and the steps of XLA that are to blame, if any. verdict: the output's verdict
    in the compiled program.
    """
    changes = history.changes
    lost = _find_lasting(changes, lambda one: one.after.order_sensitivities[output] is OrderSensitivity.LOST)
    if lost is not None:
        return PassAnswer(
            output=output,
            verdict=verdict,
            blame=PassBlame.LOST,
            change=lost,
            since=lost,
            was=None if lost.before is None else lost.before.order_sensitivities[output],
            evidence=describe_loss(lost.before, lost.after, output),
            detours=_find_detours(changes, output),
        )
    wrong = _find_lasting(changes, lambda one: one.after.scheduled is not None and one.after.verdicts[output].is_wrong)
    loose = _find_lasting(changes, lambda one: one.after.order_sensitivities[output] is OrderSensitivity.OPEN)
    is_wrong = verdict.is_wrong
    if loose is None or (is_wrong and wrong is None) or not (is_wrong or verdict is Verdict.LATENT):
        return PassAnswer(output=output, verdict=verdict, blame=PassBlame.UNEXPLAINED, change=None)
    if loose.before is not None and loose.before.order_sensitivities[output] is OrderSensitivity.FORCED:
        loosened, evidence = loose, describe_loosening(loose.before, loose.after, output)
    else:
        loosened, evidence = None, describe_openness(loose.after, output)
    if wrong is not None and is_wrong:
        open_ = [("at first", sentence) for label, sentence in evidence if label == "reader"]
        evidence = (*describe_order(wrong.before, wrong.after, output), *(open_ or evidence))
    return PassAnswer(
        output=output,
        verdict=verdict,
        blame=PassBlame.ORDERED if is_wrong else PassBlame.LATENT,
        change=wrong if is_wrong else None,
        loosened=loosened,
        since=wrong if is_wrong else loose,
        was=OrderSensitivity.OPEN,
        evidence=evidence,
        detours=_find_detours(changes, output),
    )


def _find_lasting(
    changes: tuple[SensitivityChange, ...], holds: Callable[[SensitivityChange], bool]
) -> SensitivityChange | None:
    """Returns the first change such that `holds` is true of it and of all later ones; None if it is false of the last
    one.
    """
    found = None
    for change in reversed(changes):
        if not holds(change):
            return found
        found = change
    return found


def _find_detours(
    changes: tuple[SensitivityChange, ...], output: str
) -> tuple[tuple[CompilerStep | None, CompilerStep], ...]:
    """Returns a pair (step that lost the output, step that restored it) for each time that the output was lost for a
    while.
    """
    found: list[tuple[CompilerStep | None, CompilerStep]] = []
    since: SensitivityChange | None = None
    for change in changes:
        is_lost = change.after.order_sensitivities[output] is OrderSensitivity.LOST
        if is_lost and since is None:
            since = change
        elif not is_lost and since is not None:
            if change.step is not None:
                found.append((since.step, change.step))
            since = None
    return tuple(found)


def describe_answers(answers: Iterable[PassAnswer]) -> list[str]:
    """Returns one sentence for each reason why outputs are not fresh. The sentence names all outputs with this reason."""
    groups: defaultdict[tuple[Verdict, str], list[str]] = defaultdict(list)
    for answer in answers:
        groups[answer.verdict, _describe_reason(answer)].append(f"`{answer.output}`")
    return [
        f"{join_words(outputs)} {'is' if len(outputs) == 1 else 'are'} {verdict.value}{reason}"
        for (verdict, reason), outputs in groups.items()
    ]


def _describe_reason(answer: PassAnswer) -> str:
    detours = "".join(
        f"; {name_step(lost)} lost it for a time, {name_step(back)} restored it" for lost, back in answer.detours
    )
    step = None if answer.change is None else answer.change.step
    if answer.blame is PassBlame.UNEXPLAINED:
        return ", and the snapshots do not say why: see `ligerdiag check`"
    if answer.blame is PassBlame.LOST:
        what = "what the kernel wrote" if answer.verdict is Verdict.STALE else "the value from before the kernel"
        if step is None:
            return f" already in the program that XLA got: {what} was lost before, and no pass is to blame"
        if answer.was is None:
            return f" already after {name_step(step)}, and earlier snapshots were not judged"
        was = "forced" if answer.was is OrderSensitivity.FORCED else "open"
        loss = f"{name_step(step)} loses {what}"
        return f": {loss}; the order was {was} until then, and no order restores it afterwards{detours}"
    if answer.loosened is None:
        why = "the program as XLA got it does not force the order"
    else:
        why = f"{name_step(answer.loosened.step)} removed what forced the order"
    if answer.blame is PassBlame.LATENT:
        return f", right by luck: {why}{detours}"
    return f": {name_step(step)} chooses the wrong order, and {why}{detours}"


def name_step(step: CompilerStep | None) -> str:
    """Returns a text such as "`algsimp` (0003, in `simplification`)"."""
    if step is None:
        return "the translation to HLO"
    if not step.name:
        if step.number < 0:
            return step.pipeline
        return f"XLA's work before pipeline `{step.pipeline}` ({step.number:04d})"
    part = f", {step.part}" if step.part else ""
    where = f", in `{step.pipeline}`" if step.pipeline != step.name else ""
    return f"`{step.name}` ({step.number:04d}{part}{where})"


def bisect_passes(runner: TrialRunner, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Finds the pass of XLA that is to blame for each output that is not fresh. Also returns the verdicts on these
    outputs if the case is compiled without the pass.
    """
    draft = runner.open_draft(case, target.name, Axis.PASSES, toolchain=options.toolchain, columns=COLUMNS)
    trial = Trial(case=case, target=target, toolchain=options.toolchain, variation=Variation(flags=DUMP))
    outcome = runner.try_one(trial)
    draft.rows.append(make_row(outcome, "as compiled"))
    shared = _list_shared(outcome)
    bad = {name: verdict for name, verdict in _list_bad(outcome).items() if name not in shared}
    if shared:
        names = join_words([f"`{name}`" for name in shared])
        draft.answers.append(
            f"{names} {'depends' if len(shared) == 1 else 'depend'} on two values that XLA keeps in the same bytes"
            f" ({_SHARED_BYTES}): snapshots do not show bytes; `--over flags` looks for a flag that avoids it"
        )
    if outcome.error or outcome.artifact is None or not bad:
        draft.is_unsettled = bool(outcome.error)
        is_fresh = not outcome.error and not shared
        draft.answers += ["every output is fresh: there is no pass to look for"] if is_fresh else []
        return runner.finish(draft)
    effects = CallEffectsReader(
        cache=runner.cache.root / "effects",
        declared=(*options.effects, *parse_declared(case)),
        readers=runner.find_readers(options.toolchain),
    )
    try:
        history = _judge(runner, outcome, effects)
    except ArtifactError as error:
        draft.notes.append(describe_error(error))
        draft.is_unsettled = True
        return runner.finish(draft)
    answers = [explain_output(history, output, verdict) for output, verdict in bad.items()]
    _write_rows(draft, outcome, history, answers, {})
    draft.answers += describe_answers(answers)
    draft.notes += _list_notes(history)
    draft.is_unsettled = any(answer.blame is PassBlame.UNEXPLAINED for answer in answers)
    without = _try_without(runner, trial, answers)
    _write_rows(draft, outcome, history, answers, without)
    for name, other in without.items():
        draft.answers += _describe_without(runner, name, other, answers, effects)
    return runner.finish(draft)


def _list_bad(outcome: Outcome) -> dict[str, Verdict]:
    return {name: verdict for name, verdict in outcome.outputs.items() if verdict is not Verdict.FRESH}


def _list_shared(outcome: Outcome) -> tuple[str, ...]:
    """Returns the names of the outputs that are clobbered because two values share bytes."""
    names = [name for finding in outcome.findings if finding.rule == _SHARED_BYTES for name in finding.outputs]
    return tuple([name for name in dict.fromkeys(names) if outcome.outputs.get(name) is Verdict.CLOBBERED])


def _judge(runner: TrialRunner, outcome: Outcome, effects: CallEffectsReader) -> History:
    assert outcome.artifact is not None
    trial = outcome.trial

    def report_progress(done: int, total: int) -> None:
        runner.report_progress(
            Progress(
                phase="analyse",
                event="finished" if done == total else "started",
                done=done,
                total=total,
                case_id=trial.case.id,
                target=trial.target.name,
                best=runner.best,
            )
        )

    return judge_history(outcome.artifact, effects, report_progress)


def _try_without(runner: TrialRunner, trial: Trial, answers: Iterable[PassAnswer]) -> Mapping[str, Outcome]:
    """Compiles the case again for each pass to blame, without this pass; returns a map from the pass's name to the
    outcome.
    """
    names = list(dict.fromkeys(step.name for answer in answers for step in answer.steps if step.name))
    runner.best = join_words(names)
    trials = [
        Trial(
            case=trial.case,
            target=trial.target,
            toolchain=trial.toolchain,
            variation=Variation(flags={**DUMP, DISABLE: name}),
        )
        for name in names
    ]
    return dict(zip(names, runner.try_all(trials), strict=True))


def _write_rows(
    draft: Draft,
    outcome: Outcome,
    history: History,
    answers: Sequence[PassAnswer],
    without: Mapping[str, Outcome],
) -> None:
    """Writes into the draft (the bisection in progress) a row for each change of an output that is not fresh in the
    end, and one for the compiled program.
    """
    bad = _list_bad(outcome)
    rows: list[BisectionRow] = []
    shown: tuple[Verdict, ...] = ()
    for number, change in enumerate(history.changes):
        verdicts = change.after.verdicts
        blamed = [answer for answer in answers if change in (answer.change, answer.loosened)]
        settled = [answer for answer in answers if change is answer.since]
        now = tuple(verdicts[name] for name in bad)
        if number and now == shown and not blamed and not settled:
            continue
        shown = now
        step = change.step
        cells = {"snapshot": f"{step.number:04d}"} if step is not None and step.number >= 0 else {}
        if blamed and step is not None and change.before is not None:
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
    """Returns the evidence of all answers as pairs (label, sentence); evidence that several outputs share occurs once.
    The names of the outputs replace the label of the first pair of each evidence.
    """
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
    """Returns whether the pass changed something although the flags disabled it."""
    passes = () if outcome.artifact is None else outcome.artifact.passes
    return any(
        name == (snapshot.after if snapshot.before else snapshot.pipeline) for snapshot in list_snapshots(passes)
    )


def _describe_without(
    runner: TrialRunner, name: str, outcome: Outcome, answers: Sequence[PassAnswer], effects: CallEffectsReader
) -> list[str]:
    """Returns sentences on the outputs that a pass is to blame for: their verdicts when compiled without this pass, or why
    there are none. name: that of the pass. outcome: the trial without it.
    """
    blamed = [answer.output for answer in answers if any(step.name == name for step in answer.steps)]
    head = f"without `{name}` (`{DISABLE}={name}`)"
    if outcome.error or outcome.artifact is None:
        if _ONE_FLAG in outcome.error:
            return [
                f"compiling without `{name}` was not tried: this XLA does not take `{DISABLE}` for a single compile"
            ]
        if _NO_COMPILE in outcome.error:
            return [f"{head} XLA does not compile the case: {outcome.error.partition(_NO_COMPILE)[2]}"]
        return [f"{head} there is no verdict: {outcome.error}"]
    if _still_runs(name, outcome):
        return [f"`{name}` cannot be disabled: it runs even with `{DISABLE}={name}`"]
    groups: dict[tuple[Verdict, str], list[str]] = {}
    history = None
    for output in blamed:
        verdict = outcome.outputs[output]
        then = ""
        if verdict.is_wrong:
            history = history or _judge(runner, outcome, effects)
            other = explain_output(history, output, verdict)
            if other.change is not None:
                verb = "loses it" if other.blame is PassBlame.LOST else "chooses the wrong order"
                then = f", because {name_step(other.change.step)} then {verb}"
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
