"""The front door: takes both evaluations and decides, once, what each output is; nothing else changes a verdict.

In this order, each step with a definition of its own:
  (1) `comparison`           compares the two dependence sets of each output: stale, clobbered, latent, unknown or fresh;
  (2) `first_divergence`     finds the operations and operands whose sets differ;
  (3) `blame`                makes outputs worse whose own sets agree, and names the reads where it begins;
  (4) `ambiguity_search`     finds what cannot be told;
  (5) this file              makes those outputs unknown, and takes back the reads that were blamed for them.
Of (2) and (3) `bystanders` takes back the kernels whose bytes nobody reads wrongly.
Without the program as written, `schedule_alone` takes the place of (1) to (5). `reads` judges every read of an overwritten
value from these verdicts, so that no read contradicts the output that it makes wrong.

Unknown propagation: ambiguities, and instructions without a believable name, make outputs unknown.

(1) An output is unknown for a hidden write W when it depends on an ambiguity about W (see `ambiguities`), whatever else W
    does to it. Reads that are blamed for such an output are no longer blamed for it. What another write does to the same
    output stands.
(2) The schedule is evaluated once more, with the ORIG labels of `Belief.find_possible_carriers`. An output that is then
    worse about a write than it was depends on a name that is missing, or that cannot be believed: it is ambiguous.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ligerdiag.analysis.evaluation.ambiguities import Ambiguities, Ambiguity, Reason
from ligerdiag.analysis.evaluation.carriers import Carriers, find_lost
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.evaluations import EvaluatedPair, Evaluations
from ligerdiag.analysis.verdict.ambiguity_search import AmbiguitySearch
from ligerdiag.analysis.verdict.blame import Blame, Blamed, ReadFinding, find_latent
from ligerdiag.analysis.verdict.bystanders import are_asked_for, find_whose_bytes
from ligerdiag.analysis.verdict.comparison import Cause, Comparison, OutputVerdict, find_worst
from ligerdiag.analysis.verdict.first_divergence import Differing, find_differing, find_wrong_edges
from ligerdiag.analysis.verdict.one_value import find_joined
from ligerdiag.analysis.verdict.operands import Operands
from ligerdiag.analysis.verdict.schedule_alone import judge_outputs_alone
from ligerdiag.model.findings import VERDICT_ORDER, Verdict
from ligerdiag.model.schedule_view import Place, ReadKind


def add_unidentified(
    ambiguities: Ambiguities,
    possible: Mapping[int, Labels],
    outputs: Mapping[str, OutputVerdict],
    *,
    pair: EvaluatedPair,
    comparison: Comparison,
    run: Evaluations,
) -> Ambiguities:
    """Adds the ambiguities of (2). outputs: as they are without ambiguities."""
    if not possible:
        return ambiguities
    carried = {number: run.carried.get(number, 0) | possible.get(number, 0) for number in (*run.carried, *possible)}
    actual = replace(run, carried=carried).run_actual(frozenset(), sights=False)
    added = dict(ambiguities)
    for (name, output), wanted, seen in zip(outputs.items(), pair.intended.outputs, actual.outputs, strict=False):
        were = {cause.write: cause.verdict for cause in output.causes}
        for cause in comparison.compare(wanted, seen).causes:
            if _is_worse(cause.verdict, were.get(cause.write, Verdict.FRESH)):
                original = run.space.all_original(cause.write)
                first = min(number for number, labels in possible.items() if labels & original)
                ambiguity = Ambiguity(cause.write, Reason.UNIDENTIFIED, first)
                added[name] = added.get(name, frozenset()) | {ambiguity}
    return added


def _is_worse(verdict: Verdict, was: Verdict) -> bool:
    """Whether it would be worse, and was not wrong anyway."""
    order = VERDICT_ORDER.index
    return order(verdict) > order(was) and order(was) < order(Verdict.UNKNOWN)


def propagate(found: Blamed, ambiguities: Ambiguities, crossed: frozenset[int] = frozenset()) -> Blamed:
    """Makes outputs unknown by (1), and takes back the reads that were blamed for them.

    crossed: writes around which the author's order is not known: nothing is said of what depends on them.
    """
    unclear = {(name, one.write) for name, about in ambiguities.items() for one in about}
    unclear |= {
        (name, cause.write) for name, one in found.outputs.items() for cause in one.causes if cause.write in crossed
    }
    if not unclear:
        return found
    return Blamed(
        {name: _make_unknown(name, output, unclear) for name, output in found.outputs.items()},
        _keep_certain(found.stale, unclear),
        _keep_certain(found.clobbered, unclear),
    )


def forgive_apart(found: Blamed, ambiguities: Ambiguities, evaluations: Evaluations) -> tuple[Blamed, Ambiguities]:
    """Takes back what is said of an output and a write that overwrites other rows than those it is computed from.

    Of what cannot be taken back, rows that are left alone may be all that is read: right numbers contradict nothing.
    """
    written, forgiven = evaluations.find_apart()
    apart = dict(zip(found.outputs, forgiven, strict=False))
    decided = frozenset(
        name
        for name, output in found.outputs.items()
        if (wrong := evaluations.space.bits_of(c.write for c in output.causes if c.verdict.is_wrong))
        and not wrong & ~written
    )
    found = replace(found, decided=found.decided | decided)
    pairs = {(name, write) for name, bits in apart.items() for write in evaluations.space.writes_of(bits)}
    if not pairs:
        return found, ambiguities
    outputs: dict[str, OutputVerdict] = {}
    for name, output in found.outputs.items():
        causes = tuple([cause for cause in output.causes if (name, cause.write) not in pairs])
        is_forgiven = len(causes) < len(output.causes)
        outputs[name] = OutputVerdict(find_worst(c.verdict for c in causes), causes) if is_forgiven else output
    left = {
        name: frozenset(one for one in some if (name, one.write) not in pairs) for name, some in ambiguities.items()
    }
    return replace(
        found,
        outputs=outputs,
        stale=_keep_certain(found.stale, pairs),
        clobbered=_keep_certain(found.clobbered, pairs),
    ), {name: some for name, some in left.items() if some}


def add_crowded(ambiguities: Ambiguities, crowded: Mapping[str, set[int]]) -> Ambiguities:
    """Adds an ambiguity for each question that the search has given up."""
    return {
        name: ambiguities.get(name, frozenset())
        | {Ambiguity(write, Reason.TOO_MANY, 0) for write in crowded.get(name, ())}
        for name in (*ambiguities, *[name for name in crowded if name not in ambiguities])
    }


def add_mixed(ambiguities: Ambiguities, found: Blamed, comparison: Comparison) -> Ambiguities:
    """Adds an ambiguity for each loop or conditional of which it is not known whether it mixes values up."""
    added = {
        name: frozenset(
            Ambiguity(write, Reason.MIXED, 0)
            for one in mixed
            if not one.instruction
            for write in comparison.space.writes_of(one.writes)
            if not any(cause.write == write and cause.verdict.is_wrong for cause in found.outputs[name].causes)
        )
        for name, mixed in found.mixed.items()
    }
    added = {name: some for name, some in added.items() if some}
    return {
        name: ambiguities.get(name, frozenset()) | added.get(name, frozenset()) for name in {**ambiguities, **added}
    }


def _keep_certain(reads: Iterable[ReadFinding], unclear: set[tuple[str, int]]) -> tuple[ReadFinding, ...]:
    """Keeps the outputs that reads surely reach, and the reads that surely reach one."""
    settled = [
        replace(read, outputs=tuple([name for name in read.outputs if (name, read.write.index) not in unclear]))
        for read in reads
    ]
    return tuple([read for read in settled if read.outputs])


def _make_unknown(name: str, output: OutputVerdict, unclear: set[tuple[str, int]]) -> OutputVerdict:
    kept = tuple([cause for cause in output.causes if (name, cause.write) not in unclear])
    unknown = tuple([Cause(write, Verdict.UNKNOWN) for one, write in sorted(unclear) if one == name])
    causes = (*kept, *unknown)
    return OutputVerdict(find_worst(cause.verdict for cause in causes), causes)


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
    mixed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Output name to the names of the scheduled loops and conditionals that give it one value for another one that is the
    same to XLA."""
    decided: frozenset[str] = frozenset()
    """Outputs that only decisions make wrong, such as a wrong predicate: numbers may be right all the same."""
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

    def list_mixing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the names of the loops and conditionals that mix values up for any of these outputs."""
        return tuple(dict.fromkeys(one for name in names for one in self.mixed.get(name, ())))

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
    comparison = _create_comparison(pair, evaluations.carriers)
    intended, actual = pair.intended.outputs, pair.actual.outputs
    outputs = {
        name: comparison.compare(intended[n] if n < len(intended) else 0, actual[n] if n < len(actual) else 0)
        for n, name in enumerate(output_names)
    }
    known = Operands(pair.intended, pair.actual, evaluations)
    differing = find_differing(pair.intended, pair.actual, comparison)
    if evaluations.retagged is None and not evaluations.folded:
        differing += tuple(find_wrong_edges(known, comparison))
        differing += tuple(find_joined(known, comparison))
    whose = None
    if are_asked_for(differing, outputs, comparison):
        whose = find_whose_bytes(output_names, pair=pair, run=evaluations, comparison=comparison)
        differing = whose.refine(differing)
    instructions = {one.id: one for one in pair.optimized.instructions}
    blamed = Blame(
        pair=pair, differing=differing, comparison=comparison, run=evaluations, known=known, instructions=instructions
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
    if blamed.mixed:
        ambiguities = add_mixed(ambiguities, blamed, comparison)
    blamed = propagate(blamed, ambiguities, pair.matching.crossed)
    if any(output.verdict is not Verdict.FRESH for output in blamed.outputs.values()):
        blamed, ambiguities = forgive_apart(blamed, ambiguities, evaluations)
    if whose is not None:
        blamed = whose.acquit(blamed)
    merged = pair.matching.merged
    mixed = {name: tuple([one.instruction for one in found if one.instruction]) for name, found in blamed.mixed.items()}
    return Verdicts(
        outputs=blamed.outputs,
        stale=blamed.stale,
        clobbered=blamed.clobbered,
        latent=find_latent(pair.writes, blamed.outputs, instructions),
        ambiguities=ambiguities,
        comparison=comparison,
        differing=differing,
        mixed=mixed,
        decided=blamed.decided,
        merged=frozenset((*merged, *merged.values())),
        gone=frozenset(write.index for write in pair.matching.missing) - merged.keys(),
    )


def judge_alone(pair: EvaluatedPair, output_names: tuple[str, ...]) -> Verdicts:
    """Decides what each output is where there is no program to compare the schedule with."""
    return Verdicts(outputs=judge_outputs_alone(pair, output_names), comparison=_create_comparison(pair))


def doubt_outputs(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Makes those outputs unknown that are right as far as the kernels go."""
    return _make_worse(verdicts, numbers, Verdict.UNKNOWN)


def lose_outputs(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Makes those outputs clobbered that depend on bytes in which XLA has written another value; what is stale stays so."""
    return _make_worse(verdicts, numbers, Verdict.CLOBBERED)


def _make_worse(verdicts: Verdicts, numbers: frozenset[int], least: Verdict) -> Verdicts:
    return worsen_outputs(verdicts, [name for number, name in enumerate(verdicts.outputs) if number in numbers], least)


def worsen_outputs(verdicts: Verdicts, names: Sequence[str], verdict: Verdict) -> Verdicts:
    """Makes those outputs at least as bad as that."""
    outputs = {
        name: replace(output, verdict=find_worst((output.verdict, verdict))) if name in names else output
        for name, output in verdicts.outputs.items()
    }
    return replace(verdicts, outputs=outputs)


def _create_comparison(pair: EvaluatedPair, carriers: Carriers | None = None) -> Comparison:
    traced = pair.actual.traced
    if traced and carriers is not None and carriers.origins:
        lost = find_lost(pair.optimized, carriers).paths.keys()
        traced -= {index for index, origins in carriers.origins.items() if not origins.isdisjoint(lost)}
    return Comparison(pair.writes, pair.space, pair.matching.moved, pair.undecided, traced)
