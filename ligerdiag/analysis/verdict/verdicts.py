"""The front door: takes both evaluations and decides, once, what each output is; nothing else changes a verdict.

In this order, each step with a definition of its own:
  (1) `comparison`           compares the two dependence sets of each output: stale, clobbered, latent, unknown or fresh;
  (2) `first_divergence`,    find the operations and operands whose sets differ;
      `operand_divergence`
  (3) `blame`                makes outputs worse whose own sets agree, and names the reads where it begins;
  (4) `ambiguity_search`     finds what cannot be told;
  (5) `unknown_propagation`  makes those outputs unknown, and takes back the reads that were blamed for them.
Without the program as written, `schedule_alone` takes the place of (1) to (5). `reads` judges every read of an overwritten
value from these verdicts, so that no read contradicts the output that it makes wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.analysis.evaluation.ambiguities import Ambiguities, Ambiguity
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.evaluations import EvaluatedPair, Evaluations
from ligerdiag.analysis.verdict.ambiguity_search import AmbiguitySearch
from ligerdiag.analysis.verdict.blame import Blame, ReadFinding, find_latent
from ligerdiag.analysis.verdict.comparison import Comparison, OutputVerdict
from ligerdiag.analysis.verdict.first_divergence import Differing, find_differing
from ligerdiag.analysis.verdict.operand_divergence import find_wrong_edges
from ligerdiag.analysis.verdict.schedule_alone import judge_outputs_alone
from ligerdiag.analysis.verdict.unknown_propagation import add_crowded, add_unidentified, propagate
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place, ReadKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdicts:
    """Every output of one schedule, judged, and the evidence."""

    outputs: Mapping[str, OutputVerdict]
    """By output name, in the program's order."""
    stale: tuple[ReadFinding, ...] = ()
    """Reads that make outputs stale."""
    clobbered: tuple[ReadFinding, ...] = ()
    latent: tuple[ReadFinding, ...] = ()
    ambiguities: Ambiguities = field(default_factory=dict[str, frozenset[Ambiguity]])
    """Output name to the ambiguities that make it unknown."""
    comparison: Comparison
    differing: tuple[Differing, ...] = ()
    """Operations with a wrong set."""
    merged: frozenset[int] = frozenset()
    """Hidden writes of calls that XLA runs as one with another, and of those others."""
    gone: frozenset[int] = frozenset()
    """Hidden writes that the schedule does not perform at all, not even as one with another."""

    def list_unexplained(self, write: int, verdict: Verdict) -> tuple[str, ...]:
        """Returns the names of the outputs that this write makes stale, or clobbered, and that no read is blamed for."""
        reads = self.stale if verdict is Verdict.STALE else self.clobbered
        explained = {name for read in reads if read.write.index == write for name in read.outputs}
        wrong = [n for n, o in self.outputs.items() if any(c.write == write and c.verdict is verdict for c in o.causes)]
        return tuple([name for name in wrong if name not in explained])

    def misses_merged_call(self, name: str) -> bool:
        """Whether the output is stale for want of a call that XLA took for the same as another."""
        return not self.merged.isdisjoint(self._list_missed(name))

    def misses_only_gone_calls(self, name: str) -> bool:
        """Whether no call that the output is stale for want of is in the schedule, not even as one with another."""
        missed = self._list_missed(name)
        return bool(missed) and missed <= self.gone

    def _list_missed(self, name: str) -> set[int]:
        return {cause.write for cause in self.outputs[name].causes if cause.verdict is Verdict.STALE}


class ReadCause(StrEnum):
    """The definition in `reads` that decides a read."""

    BLAMED = "blamed"
    """(1): an output is wrong, or right by luck, because of it."""
    DIVERGES_FIRST = "diverges first"
    """(2): the first operation that is wrong on the way to an output whose wrong read has no other name."""
    UNDECIDED = "undecided"
    """(3): nothing tells which value it gets, or which one is meant."""
    UNKNOWN_OUTPUT = "unknown output"
    """(3): it reaches an output that is unknown for this write."""
    OPERATION = "operation"
    """(4): the operation of the author's means that value, or another one."""
    USERS = "users"
    """(5): by all that is computed from it."""

    @property
    def is_of_outputs(self) -> bool:
        """Whether verdicts of outputs say it: (1) and (2)."""
        return self in (ReadCause.BLAMED, ReadCause.DIVERGES_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadVerdict:
    """One scheduled instruction that reads one overwritten value."""

    write: int
    """HiddenWrite index."""
    step: int
    """Id of the scheduled instruction, as `ValueFlow.find_step` names it."""
    kind: ReadKind
    cause: ReadCause
    place: Place
    """The place of the value that it reads."""
    outputs: tuple[str, ...]
    """Outputs that it reaches; of a wrong or lucky read, those that it makes so."""
    evidence: ReadFinding | None = None
    """The evidence, if the read is blamed for these outputs."""


def judge(
    pair: EvaluatedPair, evaluations: Evaluations, output_names: tuple[str, ...], possible: Mapping[int, Labels]
) -> Verdicts:
    """Decides what each output is.

    evaluations: runs either program once more, with marks on what is asked about. possible: ORIG labels that instructions
    without a name that can be believed may carry, by instruction id (see `belief`).
    """
    comparison = _create_comparison(pair)
    intended, actual = pair.intended.outputs, pair.actual.outputs
    outputs = {
        name: comparison.compare(intended[n] if n < len(intended) else 0, actual[n] if n < len(actual) else 0)
        for n, name in enumerate(output_names)
    }
    differing = find_differing(pair.intended, pair.actual, comparison)
    if evaluations.retagged is None and not evaluations.folded:
        differing += tuple(find_wrong_edges(pair.intended, pair.actual, comparison, evaluations))
    instructions = {one.id: one for one in pair.optimized.instructions}
    blamed = Blame(
        pair=pair, differing=differing, comparison=comparison, run=evaluations, instructions=instructions
    ).find(outputs)
    ambiguities: Ambiguities = {}
    if pair.writes:
        ambiguities = AmbiguitySearch(
            outputs=blamed.outputs, pair=pair, differing=differing, comparison=comparison, run=evaluations
        ).find()
        ambiguities = add_unidentified(
            ambiguities, possible, blamed.outputs, pair=pair, comparison=comparison, run=evaluations
        )
    if blamed.crowded:
        ambiguities = add_crowded(ambiguities, blamed.crowded)
    blamed = propagate(blamed, ambiguities)
    merged = pair.matching.merged
    return Verdicts(
        outputs=blamed.outputs,
        stale=blamed.stale,
        clobbered=blamed.clobbered,
        latent=find_latent(pair.writes, blamed.outputs, instructions),
        ambiguities=ambiguities,
        comparison=comparison,
        differing=differing,
        merged=frozenset((*merged, *merged.values())),
        gone=frozenset(write.index for write in pair.matching.missing) - merged.keys(),
    )


def judge_alone(pair: EvaluatedPair, output_names: tuple[str, ...]) -> Verdicts:
    """Decides what each output is where there is no program to compare the schedule with."""
    return Verdicts(outputs=judge_outputs_alone(pair, output_names), comparison=_create_comparison(pair))


def _create_comparison(pair: EvaluatedPair) -> Comparison:
    return Comparison(pair.writes, pair.space, pair.matching.moved, pair.undecided, pair.actual.traced)
