"""Judges each output of one schedule, step by step; lists everything that decides or changes a verdict, also elsewhere.

`judge` takes these steps, in this order:

- `comparison.compare` compares the two dependence sets of each output: stale, clobbered, unknown, latent or fresh.
- `first_divergence` and `merged_values.find_joined` find the operations and operands whose sets differ; `bystanders`
  removes the writes whose bytes an operation does not read wrongly (`DirectErrors.refine`).
- `blame` makes outputs worse whose own sets agree, and names the reads where they start to be wrong.
- `ambiguity_search`, `add_unidentified`, `add_unsearched` and `add_mixed_confluences` find what an output depends on
  and nobody knows; `propagate` makes such an output unknown for that write, and drops the reads that were blamed for
  it.
- `drop_disjoint_rows` drops a write if the output uses only rows that the kernel does not write. No other step can make
  an output better.
- `bystanders` drops the kernels that are not responsible (`DirectErrors.drop_bystanders`); a wrong output stays wrong.

Without the program as written, `schedule_alone` replaces all of these. Later steps make no output right:

- `judge_conditional_results` (called by `analysis.context`): the schedule may skip a call, or never makes it.
- `inspection.compilation`: JAX lost a Ref, or may have (`_find_lost_refs`; every output is unknown if the effect of
  moved Refs is, `refs_trouble`); live values share bytes (`_mark_shared`); XLA mixed up donated arguments.
- `inspection.coverage.join_inspections`: the author's order is unknown, and the programs that it may be disagree.
- `report.status.mark_undefined`: an output holds bytes that nobody wrote, or is not defined by any order.

`reads` judges every read of an overwritten value from the verdicts of `judge`, so that no read contradicts the output
that it makes wrong.

An output is unknown for a hidden write if it depends on an ambiguity about that write (see `ambiguities`), whatever
else the write does to it; another write's effect on the output stands. To find missing names, the schedule is evaluated
once more with the ORIG labels of `TagTrust.find_possible_carriers`: an output that gets worse about a write depends on
a name that is missing or cannot be trusted, and is ambiguous.

Dependence sets describe hidden writes, and take a kernel's results to be there. If the program always makes a call and
the schedule may skip it, an output that depends on the call's results is unknown, or stale if the call certainly never
runs (`judge_conditional_results`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.ambiguities import Ambiguities, Ambiguity, Reason
from ligerdiag.analysis.evaluation.carriers import Carriers, find_lost_carriers
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.verdict.ambiguity_search import AmbiguitySearch
from ligerdiag.analysis.verdict.blame import Blamed, BlameSearch, ReadFinding, find_latent
from ligerdiag.analysis.verdict.bystanders import find_direct_errors, needs_direct_errors
from ligerdiag.analysis.verdict.comparison import Cause, Comparison, OutputVerdict, find_worst
from ligerdiag.analysis.verdict.first_divergence import Differing, find_differing, find_wrong_edges
from ligerdiag.analysis.verdict.merged_values import find_joined
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
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
    evaluator: Evaluator,
) -> Ambiguities:
    """Adds an ambiguity for each output that gets worse if instructions without a trusted name are carriers.

    possible: instruction id to the ORIG labels that may start there. outputs: the verdicts without ambiguities.
    """
    if not possible:
        return ambiguities
    carried = {
        number: evaluator.carried.get(number, 0) | possible.get(number, 0) for number in (*evaluator.carried, *possible)
    }
    actual = replace(evaluator, carried=carried).run_actual(frozenset(), records=False)
    added = dict(ambiguities)
    for (name, output), wanted, seen in zip(outputs.items(), pair.intended.outputs, actual.outputs, strict=False):
        were = {cause.write: cause.verdict for cause in output.causes}
        for cause in comparison.compare(wanted, seen).causes:
            if _is_worse(cause.verdict, were.get(cause.write, Verdict.FRESH)):
                original = evaluator.space.all_original(cause.write)
                first = min(number for number, labels in possible.items() if labels & original)
                ambiguity = Ambiguity(cause.write, Reason.UNIDENTIFIED, first)
                added[name] = added.get(name, frozenset()) | {ambiguity}
    return added


def _is_worse(verdict: Verdict, was: Verdict) -> bool:
    """Returns whether `verdict` is worse than `was`, and `was` was neither wrong nor unknown."""
    order = VERDICT_ORDER.index
    return order(verdict) > order(was) and order(was) < order(Verdict.UNKNOWN)


def propagate(found: Blamed, ambiguities: Ambiguities, order_unknown: frozenset[int] = frozenset()) -> Blamed:
    """Makes outputs unknown that depend on an ambiguity, and drops the reads on which these outputs were blamed.

    order_unknown: writes around which the author's order is unknown; an output is unknown about them.
    """
    unclear = {(name, one.write) for name, about in ambiguities.items() for one in about}
    unclear |= {
        (name, cause.write)
        for name, one in found.outputs.items()
        for cause in one.causes
        if cause.write in order_unknown
    }
    if not unclear:
        return found
    return Blamed(
        {name: _make_unknown(name, output, unclear) for name, output in found.outputs.items()},
        _keep_certain(found.stale, unclear),
        _keep_certain(found.clobbered, unclear),
    )


def drop_disjoint_rows(found: Blamed, ambiguities: Ambiguities, evaluator: Evaluator) -> tuple[Blamed, Ambiguities]:
    """Drops a cause if the output only uses rows that the kernel does not write; the output can get better.

    Adds outputs to `Blamed.decided` that are wrong only about kernels that write some rows of their operand: correct
    numbers do not contradict such a verdict, because the rows that are read may be untouched.
    """
    written, unused = evaluator.find_disjoint_rows()
    dropped = dict(zip(found.outputs, unused, strict=False))
    decided = frozenset(
        name
        for name, output in found.outputs.items()
        if (wrong := evaluator.space.bits_of(c.write for c in output.causes if c.verdict.is_wrong))
        and not wrong & ~written
    )
    found = replace(found, decided=found.decided | decided)
    pairs = {(name, write) for name, bits in dropped.items() for write in evaluator.space.writes_of(bits)}
    if not pairs:
        return found, ambiguities
    outputs: dict[str, OutputVerdict] = {}
    for name, output in found.outputs.items():
        causes = tuple([cause for cause in output.causes if (name, cause.write) not in pairs])
        is_dropped = len(causes) < len(output.causes)
        outputs[name] = OutputVerdict(find_worst(c.verdict for c in causes), causes) if is_dropped else output
    left = {
        name: frozenset(one for one in some if (name, one.write) not in pairs) for name, some in ambiguities.items()
    }
    return replace(
        found,
        outputs=outputs,
        stale=_keep_certain(found.stale, pairs),
        clobbered=_keep_certain(found.clobbered, pairs),
    ), {name: some for name, some in left.items() if some}


def add_unsearched(ambiguities: Ambiguities, unsearched: Mapping[str, set[int]]) -> Ambiguities:
    """Adds an ambiguity for each output and write for which `blame` found too many wrong operations to search.

    unsearched: output name to these writes.
    """
    return {
        name: ambiguities.get(name, frozenset())
        | {Ambiguity(write, Reason.TOO_MANY, 0) for write in unsearched.get(name, ())}
        for name in (*ambiguities, *[name for name in unsearched if name not in ambiguities])
    }


def add_mixed_confluences(ambiguities: Ambiguities, found: Blamed, comparison: Comparison) -> Ambiguities:
    """Adds an ambiguity for each loop or conditional that may return one merged value for another, if the schedule does
    not show whether it does.
    """
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
    """Returns the reads that still reach an output, each without its unclear outputs.

    unclear: (output name, HiddenWrite index) pairs.
    """
    certain = [
        replace(read, outputs=tuple([name for name in read.outputs if (name, read.write.index) not in unclear]))
        for read in reads
    ]
    return tuple([read for read in certain if read.outputs])


def _make_unknown(name: str, output: OutputVerdict, unclear: set[tuple[str, int]]) -> OutputVerdict:
    kept = tuple([cause for cause in output.causes if (name, cause.write) not in unclear])
    unknown = tuple([Cause(write, Verdict.UNKNOWN) for one, write in sorted(unclear) if one == name])
    causes = (*kept, *unknown)
    return OutputVerdict(find_worst(cause.verdict for cause in causes), causes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdicts:
    """The verdicts on all outputs of one schedule, and the evidence for them."""

    outputs: Mapping[str, OutputVerdict]
    """Output name to verdict, in the program's order."""
    stale: tuple[ReadFinding, ...] = ()
    """Reads that make outputs stale; `clobbered` and `latent` are the same for these verdicts."""
    clobbered: tuple[ReadFinding, ...] = ()
    latent: tuple[ReadFinding, ...] = ()
    ambiguities: Ambiguities = field(default_factory=dict[str, frozenset[Ambiguity]])
    """Output name to the ambiguities that make it unknown."""
    comparison: Comparison
    differing: tuple[Differing, ...] = ()
    """Operations whose actual dependence set is wrong."""
    mixed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Output name to the names of the scheduled loops and conditionals that give the output one merged value for
    another.
    """
    decided: frozenset[str] = frozenset()
    """Outputs that are wrong only through decisions, such as a wrong predicate: their numbers may be right."""
    merged: frozenset[int] = frozenset()
    """Indices of the hidden writes of calls that XLA merged into others, and of the calls into which it merged them."""
    gone: frozenset[int] = frozenset()
    """Indices of the hidden writes that the schedule does not perform, not even as part of a merged call."""

    def list_unexplained(self, write: int, verdict: Verdict) -> tuple[str, ...]:
        """Returns the names of the outputs that this write makes stale or clobbered without a blamed read."""
        reads = self.stale if verdict is Verdict.STALE else self.clobbered
        explained = {name for read in reads if read.write.index == write for name in read.outputs}
        wrong = [n for n, o in self.outputs.items() if any(c.write == write and c.verdict is verdict for c in o.causes)]
        return tuple([name for name in wrong if name not in explained])

    def list_mixing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the names of the loops and conditionals that mix up merged values for any of these outputs."""
        return tuple(dict.fromkeys(one for name in names for one in self.mixed.get(name, ())))

    def misses_merged_call(self, name: str) -> bool:
        """Returns whether the output misses the write of a call that XLA merged with another one."""
        return not self.merged.isdisjoint(self._list_missed(name))

    def misses_only_gone_calls(self, name: str) -> bool:
        """Returns whether the output misses some write, and the call of each write that it misses is gone from the
        schedule and not merged with another call.
        """
        missed = self._list_missed(name)
        return bool(missed) and missed <= self.gone

    def _list_missed(self, name: str) -> set[int]:
        return {cause.write for cause in self.outputs[name].causes if cause.verdict is Verdict.STALE}


class ReadCause(StrEnum):
    """The statement in `verdict.reads` that decides the verdict on a read."""

    BLAMED = "blamed"
    """An output is wrong, or right by luck, because of the read."""
    DIVERGES_FIRST = "diverges first"
    """The reader is the first wrong operation on the way to an output that is wrong without a blamed read."""
    UNDECIDED = "undecided"
    """The version that the read gets, or the version that is meant, is unknown."""
    UNKNOWN_OUTPUT = "unknown output"
    """The read reaches an output that is unknown for this write."""
    OPERATION = "operation"
    """The reader is the author's operation, whose intended version is compared with the version that it gets."""
    USERS = "users"
    """The reader is the compiler's, and all values computed from it decide."""

    @property
    def is_of_outputs(self) -> bool:
        """Returns whether verdicts of outputs decide the read."""
        return self in (ReadCause.BLAMED, ReadCause.DIVERGES_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadVerdict:
    """The verdict on one scheduled instruction that reads one overwritten value."""

    write: int
    """HiddenWrite index."""
    step: int
    """Id of the scheduled instruction, as `ValueFlow.find_step` names it."""
    kind: ReadKind
    cause: ReadCause
    place: Place
    """The place of the value that the instruction reads."""
    outputs: tuple[str, ...]
    """Outputs that the read reaches; for a wrong or lucky read, only the outputs that are wrong or latent because of
    it.
    """
    evidence: ReadFinding | None = None
    """The evidence, if the read is blamed for these outputs."""


def judge(
    pair: EvaluatedPair, evaluator: Evaluator, output_names: tuple[str, ...], possible: Mapping[int, Labels]
) -> Verdicts:
    """Returns the verdict on each output of a schedule.

    evaluator: evaluates either program once more, with marks on the instructions in question. possible: ORIG labels
    that instructions without a trusted name may carry, by instruction id (see `tag_trust`).
    """
    comparison = _create_comparison(pair, evaluator.carriers)
    intended, actual = pair.intended.outputs, pair.actual.outputs
    outputs = {
        name: comparison.compare(intended[n] if n < len(intended) else 0, actual[n] if n < len(actual) else 0)
        for n, name in enumerate(output_names)
    }
    provenance = OperandProvenance(pair.intended, pair.actual, evaluator)
    differing = find_differing(pair.intended, pair.actual, comparison)
    if evaluator.retagged is None and not evaluator.canonicalized:
        differing += tuple(find_wrong_edges(provenance, comparison))
        differing += tuple(find_joined(provenance, comparison))
    direct = None
    if needs_direct_errors(differing, outputs):
        direct = find_direct_errors(output_names, pair=pair, evaluator=evaluator, comparison=comparison)
        differing = direct.refine(differing)
    instructions = {one.id: one for one in pair.optimized.instructions}
    blamed = BlameSearch(
        pair=pair,
        differing=differing,
        comparison=comparison,
        evaluator=evaluator,
        provenance=provenance,
        instructions=instructions,
    ).find(outputs)
    ambiguities: Ambiguities = {}
    if pair.writes:
        ambiguities = AmbiguitySearch(
            outputs=blamed.outputs, pair=pair, differing=differing, comparison=comparison, evaluator=evaluator
        ).find()
        ambiguities = add_unidentified(
            ambiguities, possible, blamed.outputs, pair=pair, comparison=comparison, evaluator=evaluator
        )
    if blamed.unsearched:
        ambiguities = add_unsearched(ambiguities, blamed.unsearched)
    if blamed.mixed:
        ambiguities = add_mixed_confluences(ambiguities, blamed, comparison)
    blamed = propagate(blamed, ambiguities, pair.matching.order_unknown)
    if any(output.verdict is not Verdict.FRESH for output in blamed.outputs.values()):
        blamed, ambiguities = drop_disjoint_rows(blamed, ambiguities, evaluator)
    if direct is not None:
        blamed = direct.drop_bystanders(blamed)
    merged = pair.matching.merged_into
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
    """Returns the verdict on each output if there is no program as written to compare the schedule with."""
    return Verdicts(outputs=judge_outputs_alone(pair, output_names), comparison=_create_comparison(pair))


def make_outputs_unknown(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Returns the verdicts in which the outputs with these numbers are unknown, unless they are already worse."""
    return _make_worse(verdicts, numbers, Verdict.UNKNOWN)


def make_outputs_clobbered(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Returns the verdicts in which the outputs with these numbers are clobbered, because they depend on bytes in which
    XLA has written another value; stale outputs stay stale.
    """
    return _make_worse(verdicts, numbers, Verdict.CLOBBERED)


def _make_worse(verdicts: Verdicts, numbers: frozenset[int], least: Verdict) -> Verdicts:
    return worsen_outputs(verdicts, [name for number, name in enumerate(verdicts.outputs) if number in numbers], least)


def worsen_outputs(verdicts: Verdicts, names: Sequence[str], verdict: Verdict) -> Verdicts:
    """Returns the verdicts in which the outputs with these names are at least as bad as `verdict`."""
    outputs = {
        name: replace(output, verdict=find_worst((output.verdict, verdict))) if name in names else output
        for name, output in verdicts.outputs.items()
    }
    return replace(verdicts, outputs=outputs)


def _create_comparison(pair: EvaluatedPair, carriers: Carriers | None = None) -> Comparison:
    traced = pair.actual.traced
    if traced and carriers is not None and carriers.origins:
        lost = find_lost_carriers(pair.optimized, carriers).paths.keys()
        traced -= {index for index, origins in carriers.origins.items() if not origins.isdisjoint(lost)}
    return Comparison(pair.writes, pair.space, pair.matching.loop_depth_differs, pair.undecided, traced)


def judge_conditional_results(verdicts: Verdicts, pair: EvaluatedPair, evaluator: Evaluator) -> Verdicts:
    """Makes outputs stale that depend on the result of a call that the schedule never makes, and unknown if it makes
    the call only under a condition.
    """
    matching = pair.matching
    if not pair.has_program or not (matching.idle or matching.conditional):
        return verdicts
    outputs = dict(verdicts.outputs)
    for indices, verdict in ((matching.conditional, Verdict.UNKNOWN), (matching.idle, Verdict.STALE)):
        for index, reached in _find_reached(indices, pair, evaluator):
            for (name, output), is_reached in zip(outputs.items(), reached, strict=False):
                if is_reached:
                    outputs[name] = output.join((Cause(index, verdict),))
    return replace(verdicts, outputs=outputs)


def _find_reached(
    indices: Iterable[int], pair: EvaluatedPair, evaluator: Evaluator
) -> Iterable[tuple[int, tuple[bool, ...]]]:
    """Yields the index of each write with, for each output, whether the output depends on a result of the write's call
    in the program.
    """
    for index in sorted(indices):
        path = pair.writes[index].tag_path
        if not path:
            yield index, (True,) * len(pair.intended.outputs)
            continue
        mark = pair.space.mark(("results of", path))
        yield index, tuple([bool(labels & mark) for labels in evaluator.run_intended({path: mark}).outputs])
