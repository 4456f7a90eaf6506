"""Phrases that several axes share."""

from collections.abc import Mapping, Sequence

from ligerdiag.bisect.trial import Outcome
from ligerdiag.findings import VERDICT_ORDER, Verdict
from ligerdiag.hazards.registry import get_rule
from ligerdiag.outcomes import Replay
from ligerdiag.report.agreement import Agreement, compute_replay_agreements
from ligerdiag.report.bisection import BisectionRow
from ligerdiag.report.numbers_cell import render_agreement_word
from ligerdiag.report.spans import compute_text
from ligerdiag.words import join_words


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
    """Returns whether verdicts and numbers cannot both be true: a bug in ligerdiag."""
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
