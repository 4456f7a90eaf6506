"""Finds the compiler step to blame for an output, from its state after each pass.

For an output that is not fresh in the end, the state that lasts counts:
  lost     since the first snapshot of those at the end under which it is lost: the step before it has lost it
  ordered  not lost, and wrong under the schedule since that snapshot: the step before it has fixed the order
  latent   not lost, and the schedule has it right by luck: no step is to blame for the order
An output that is not lost may have been forced at first: then the step after which it is no longer forced has loosened
it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.analysis.verdict.comparison import Standing
from ligerdiag.bisect.passes.history import CompilerStep, History, Moment
from ligerdiag.bisect.passes.step_evidence import (
    Evidence,
    describe_loosening,
    describe_loss,
    describe_openness,
    describe_order,
)
from ligerdiag.model.findings import Verdict
from ligerdiag.text import join_words


class PassBlame(StrEnum):
    """The effect of a step on an output."""

    LOST = "lost"
    ORDERED = "ordered"
    LATENT = "latent"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassAnswer:
    """The reason why one output is not fresh."""

    output: str
    verdict: Verdict
    blame: PassBlame
    moment: Moment | None
    """After which it is lost, or wrongly ordered; None where no step is to blame."""
    loosened: Moment | None = None
    """After which nothing forces it any more; None where nothing ever did."""
    was: Standing | None = None
    """The output's state before the step."""
    evidence: Evidence = ()

    since: Moment | None = None
    """The source of the evidence: the output has had this state since then."""
    detours: tuple[tuple[CompilerStep | None, CompilerStep], ...] = ()
    """Steps that had lost it (None: the way to XLA), each with the one that gave it back."""

    @property
    def steps(self) -> tuple[CompilerStep, ...]:
        """Steps to blame, the one that decides first."""
        found = [one for one in (self.moment, self.loosened) if one is not None and one.before is not None]
        return tuple(one.step for one in found if one.step is not None)


def explain_output(history: History, output: str, verdict: Verdict) -> PassAnswer:
    """Returns the step to blame for an output with this verdict, which is not fresh."""
    moments = history.moments
    lost = _find_lasting(moments, lambda one: one.after.standings[output] is Standing.LOST)
    if lost is not None:
        return PassAnswer(
            output=output,
            verdict=verdict,
            blame=PassBlame.LOST,
            moment=lost,
            since=lost,
            was=None if lost.before is None else lost.before.standings[output],
            evidence=describe_loss(lost.before, lost.after, output),
            detours=_find_detours(moments, output),
        )
    wrong = _find_lasting(moments, lambda one: one.after.scheduled is not None and one.after.verdicts[output].is_wrong)
    loose = _find_lasting(moments, lambda one: one.after.standings[output] is Standing.OPEN)
    is_wrong = verdict.is_wrong
    if loose is None or (is_wrong and wrong is None) or not (is_wrong or verdict is Verdict.LATENT):
        return PassAnswer(output=output, verdict=verdict, blame=PassBlame.UNTOLD, moment=None)
    if loose.before is not None and loose.before.standings[output] is Standing.FORCED:
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
        moment=wrong if is_wrong else None,
        loosened=loosened,
        since=wrong if is_wrong else loose,
        was=Standing.OPEN,
        evidence=evidence,
        detours=_find_detours(moments, output),
    )


def _find_lasting(moments: tuple[Moment, ...], holds: Callable[[Moment], bool]) -> Moment | None:
    """The first of the moments at the end for which it holds."""
    found = None
    for moment in reversed(moments):
        if not holds(moment):
            return found
        found = moment
    return found


def _find_detours(moments: tuple[Moment, ...], output: str) -> tuple[tuple[CompilerStep | None, CompilerStep], ...]:
    """Returns the detours on which the output was lost for a while."""
    found: list[tuple[CompilerStep | None, CompilerStep]] = []
    since: Moment | None = None
    for moment in moments:
        is_lost = moment.after.standings[output] is Standing.LOST
        if is_lost and since is None:
            since = moment
        elif not is_lost and since is not None:
            if moment.step is not None:
                found.append((since.step, moment.step))
            since = None
    return tuple(found)


def describe_answers(answers: Iterable[PassAnswer]) -> list[str]:
    """Returns a sentence for each reason, with all outputs that it holds for."""
    groups: defaultdict[tuple[Verdict, str], list[str]] = defaultdict(list)
    for answer in answers:
        groups[answer.verdict, _describe_reason(answer)].append(f"`{answer.output}`")
    return [
        f"{join_words(outputs)} {'is' if len(outputs) == 1 else 'are'} {verdict.value}{reason}"
        for (verdict, reason), outputs in groups.items()
    ]


def _describe_reason(answer: PassAnswer) -> str:
    detours = "".join(
        f"; {name_step(lost)} had lost it, {name_step(back)} gave it back" for lost, back in answer.detours
    )
    step = None if answer.moment is None else answer.moment.step
    if answer.blame is PassBlame.UNTOLD:
        return ", and the snapshots do not say why: see `ligerdiag check`"
    if answer.blame is PassBlame.LOST:
        what = "what the kernel wrote" if answer.verdict is Verdict.STALE else "the value from before the kernel"
        if step is None:
            return f" already in the program as XLA got it: {what} was lost on the way there, and no pass is to blame"
        if answer.was is None:
            return f" already after {name_step(step)}, and what came before was not judged"
        was = "it was sure to arrive" if answer.was is Standing.FORCED else "the order was open"
        return f": {name_step(step)} loses {what}; until then {was}, from then on no order can mend it{detours}"
    if answer.loosened is None:
        why = "the program as XLA got it does not force the order"
    else:
        why = f"{name_step(answer.loosened.step)} has taken away what forced the order"
    if answer.blame is PassBlame.LATENT:
        return f", right by luck: {why}{detours}"
    return f": {name_step(step)} fixes the wrong order, and {why}{detours}"


def name_step(step: CompilerStep | None) -> str:
    """Such as "`algsimp` (0003, in `simplification`)"."""
    if step is None:
        return "the translation to HLO"
    if not step.name:
        if step.number < 0:
            return step.pipeline
        return f"what XLA does before the pipeline `{step.pipeline}` ({step.number:04d})"
    part = f", {step.part}" if step.part else ""
    where = f", in `{step.pipeline}`" if step.pipeline != step.name else ""
    return f"`{step.name}` ({step.number:04d}{part}{where})"
