"""Judges each output of one schedule. This docstring lists all steps that decide or change a verdict, in this module
and in others.

`judge` takes these steps, in this order:

- `Comparison.compare` compares the two dependence sets of each output, which say on which hidden writes it depends in
  the program and in the schedule. The result is stale, clobbered, unknown, latent or fresh.
- `first_divergence` and `merged_values.find_joined` find the operations and operands whose sets differ, also where XLA has
  moved a slice or a collective behind its users (`moved_operations`); `bystanders`
  removes the writes whose bytes an operation does not read wrongly (`DirectErrors.refine`), and `merged_uses` those about
  which an instruction is right for each of the merged operations for which it is used.
- `blame` makes outputs worse that depend on a wrong operation although their own sets agree, and names the reads at
  which the outputs start to be wrong.
- `ambiguity_search`, `add_unidentified`, `add_unsearched` and `add_mixed_confluences` find outputs that depend on
  something unknown; `propagate` makes such an output unknown for the write in question, and no longer blames the output
  on any read.
- `drop_disjoint_rows` drops a write if the output uses only rows that the kernel does not write. No other step can make
  an output better.
- `bystanders` drops the kernels that are not responsible (`DirectErrors.drop_bystanders`); a wrong output stays wrong.

Without the program as written, `schedule_alone` replaces all of these steps. The following steps come later; none of
them makes an output right:

- `judge_conditional_results` (called by `analysis.context`) handles calls that the schedule may skip, or never makes.
- `inspection.compilation` handles writes to a Ref that JAX lost, or may have lost (`_find_lost_refs`; every output is
  unknown if the effect of moved Refs is unknown, `refs_trouble`); live values that share bytes (`_mark_shared`); and
  donated arguments that XLA mixed up.
- `inspection.coverage.join_inspections` handles a program whose order of operations is unknown: the possible programs
  may have different verdicts.
- `rules.undefined_outputs` handles outputs that hold bytes which nobody wrote, or that no order of operations
  defines.

`reads` judges every read of an overwritten value, and uses the verdicts of `judge` for it, so that no read contradicts
the output that it makes wrong.

An output is unknown for a hidden write if it depends on an ambiguity about that write (see `ambiguities`), whatever
else the write does to it; the verdict on the output for another write stays. To find missing names, the schedule is
evaluated once more with the ORIG labels (dependences on contents from before a write) that
`TagTrust.find_possible_carriers` returns: an output that gets worse for a write depends on a name that is missing or
cannot be trusted, and gets an ambiguity.

Dependence sets describe only hidden writes, and presuppose that every kernel call produces its results. If the program
always makes a call and the schedule may skip it, an output that depends on the call's results is unknown, or stale if
the call certainly never runs (`judge_conditional_results`).
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
from ligerdiag.analysis.verdict.first_divergence import Differing, find_differing, find_moved_errors, find_wrong_edges
from ligerdiag.analysis.verdict.merged_uses import MergedUses
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
    """Returns the ambiguities, with one added for each output that would get worse if instructions without a trusted
    name were carriers, that is, held the value of an operand from before a write.

    possible: maps the id of such an instruction to the ORIG labels that would start there. outputs: the verdicts
    without ambiguities.
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
    """Returns whether `verdict` is worse than `was`, and `was` is fresh or latent."""
    order = VERDICT_ORDER.index
    return order(verdict) > order(was) and order(was) < order(Verdict.UNKNOWN)


def propagate(found: Blamed, ambiguities: Ambiguities, order_unknown: frozenset[int] = frozenset()) -> Blamed:
    """Returns a copy of the verdicts in which each output that depends on an ambiguity (an unknown fact about a hidden
    write) is unknown for that write, and no longer blamed on a read.

    order_unknown: indices of writes around which the author's order is unknown; outputs that depend on them become
    unknown.
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
    """Returns copies of the verdicts and the ambiguities, without the hidden writes of which an output only uses rows
    that the kernel does not write; the output can get better.

    Adds to `Blamed.decided` the outputs that are wrong only about kernels that write some rows of their operand:
    correct numbers do not contradict such a verdict, because the rows that are read may be untouched.
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
    """Returns the ambiguities, with one added for each output and each write for which `blame` found too many wrong
    operations to search.

    unsearched: maps an output name to the indices of these writes.
    """
    return {
        name: ambiguities.get(name, frozenset())
        | {Ambiguity(write, Reason.TOO_MANY, 0) for write in unsearched.get(name, ())}
        for name in (*ambiguities, *[name for name in unsearched if name not in ambiguities])
    }


def add_mixed_confluences(ambiguities: Ambiguities, found: Blamed, comparison: Comparison) -> Ambiguities:
    """Returns the ambiguities, with one added for each output that depends on a loop or conditional which may return
    one merged value for another, if the schedule does not show whether it does.
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
    """Returns the reads on which an output is still blamed, each without the outputs for which its write is unclear.

    unclear: (output name, index of a hidden write) pairs.
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
    """Maps the name of each output to the verdict on it, in the program's order."""
    stale: tuple[ReadFinding, ...] = ()
    """Reads that make outputs stale. In the same way, `clobbered` and `latent` hold the reads that make outputs
    clobbered or latent.
    """
    clobbered: tuple[ReadFinding, ...] = ()
    latent: tuple[ReadFinding, ...] = ()
    ambiguities: Ambiguities = field(default_factory=dict[str, frozenset[Ambiguity]])
    """Maps an output name to the ambiguities (unknown facts on which the output depends) that make it unknown."""
    comparison: Comparison
    differing: tuple[Differing, ...] = ()
    """Operations whose dependence set in the schedule makes them stale or clobbered for some write."""
    mixed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Maps the name of an output to the names of the scheduled loops and conditionals from which the output may get the
    wrong one of several values that XLA merged.
    """
    decided: frozenset[str] = frozenset()
    """Names of the outputs that are wrong only because of a decision, such as a wrong predicate: their numbers may be
    right.
    """
    merged: frozenset[int] = frozenset()
    """Indices of the hidden writes of calls that XLA merged with others: of those that are gone, and of those that
    remain.
    """
    gone: frozenset[int] = frozenset()
    """Indices of the hidden writes that the schedule does not perform, not even as part of a merged call."""

    def list_unexplained(self, write: int, verdict: Verdict) -> tuple[str, ...]:
        """Returns the names of the outputs that have this verdict (stale or clobbered) for the hidden write with this
        index although no read is blamed for it.
        """
        reads = self.stale if verdict is Verdict.STALE else self.clobbered
        explained = {name for read in reads if read.write.index == write for name in read.outputs}
        wrong = [n for n, o in self.outputs.items() if any(c.write == write and c.verdict is verdict for c in o.causes)]
        return tuple([name for name in wrong if name not in explained])

    def list_mixing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the names of the loops and conditionals from which one of these outputs may get the wrong one of
        several values that XLA merged.
        """
        return tuple(dict.fromkeys(one for name in names for one in self.mixed.get(name, ())))

    def misses_merged_call(self, name: str) -> bool:
        """Returns whether the output misses the write of a call that XLA merged with another one."""
        return not self.merged.isdisjoint(self._list_missed(name))

    def misses_only_gone_calls(self, name: str) -> bool:
        """Returns whether the output misses at least one write, and the schedule performs none of the writes that it
        misses, not even as part of a merged call.
        """
        missed = self._list_missed(name)
        return bool(missed) and missed <= self.gone

    def _list_missed(self, name: str) -> set[int]:
        return {cause.write for cause in self.outputs[name].causes if cause.verdict is Verdict.STALE}


class ReadCause(StrEnum):
    """The statement in the docstring of `verdict.reads` that decides the verdict on a read."""

    BLAMED = "blamed"
    """An output is wrong, or right by luck, because of the read."""
    DIVERGES_FIRST = "diverges first"
    """An output is wrong and no read is blamed for it; the reader is the first wrong operation from which this output
    is computed.
    """
    UNDECIDED = "undecided"
    """The version that the read gets, or the version that is meant, is unknown."""
    UNKNOWN_OUTPUT = "unknown output"
    """An output that is computed from the read is unknown for this write."""
    OPERATION = "operation"
    """The reader is an operation of the author: the version that it gets is compared with the version that the author
    means.
    """
    USERS = "users"
    """The compiler made the reader; the values and outputs that are computed from it decide."""

    @property
    def is_of_outputs(self) -> bool:
        """Returns whether the verdict on the read was derived from an output that is wrong, or right by luck: true for
        BLAMED and DIVERGES_FIRST.
        """
        return self in (ReadCause.BLAMED, ReadCause.DIVERGES_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadVerdict:
    """The verdict on one scheduled instruction that reads one overwritten value."""

    write: int
    """Index of the hidden write."""
    step: int
    """Id of the scheduled instruction that reads, as `ValueFlow.find_step` returns it."""
    kind: ReadKind
    cause: ReadCause
    place: Place
    """Place of the value that the instruction reads: the overwritten bytes, other bytes, or none because it is
    recomputed.
    """
    outputs: tuple[str, ...]
    """Names of the outputs that are computed from the read; for a wrong or lucky read, only of those that are wrong or
    latent because of it.
    """
    evidence: ReadFinding | None = None
    """The finding that blames these outputs on the read; None if there is none."""


def judge(
    pair: EvaluatedPair, evaluator: Evaluator, output_names: tuple[str, ...], possible: Mapping[int, Labels]
) -> Verdicts:
    """Returns the verdict on each output of a schedule, with the evidence.

    evaluator: evaluates either program again, with marks on the instructions in question. possible: maps the id of an
    instruction without a trusted name to the ORIG labels that may start there: it may hold the contents from before a
    write (see `tag_trust`).
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
        differing += tuple(find_moved_errors(provenance, comparison))
        differing += tuple(find_joined(provenance, comparison))
        differing = MergedUses(provenance, comparison).refine(differing)
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
    """Returns the verdict on each output if there is no program as written with which the schedule could be compared."""
    return Verdicts(outputs=judge_outputs_alone(pair, output_names), comparison=_create_comparison(pair))


def make_outputs_unknown(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Returns a copy of the verdicts in which the outputs with these 0-based numbers are unknown, or keep a verdict
    that is worse than unknown.
    """
    return _make_worse(verdicts, numbers, Verdict.UNKNOWN)


def make_outputs_clobbered(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Returns a copy of the verdicts in which the outputs with these 0-based numbers are clobbered, or stale if they
    were stale: they depend on bytes into which XLA has written another value.
    """
    return _make_worse(verdicts, numbers, Verdict.CLOBBERED)


def _make_worse(verdicts: Verdicts, numbers: frozenset[int], least: Verdict) -> Verdicts:
    return worsen_outputs(verdicts, [name for number, name in enumerate(verdicts.outputs) if number in numbers], least)


def worsen_outputs(verdicts: Verdicts, names: Sequence[str], verdict: Verdict) -> Verdicts:
    """Returns a copy of the verdicts in which the outputs with these names have at least this verdict; a worse one
    stays.
    """
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
    """Returns a copy of the verdicts in which outputs that depend on the result of a call are stale if the schedule
    never makes the call, and unknown if it makes the call only under a condition that the program lacks.
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
    """Yields (index of a write, one bool for each output) for each of these writes, in ascending order: whether the
    output depends on a result of the write's call in the program. If the call has no tag, each output may, and all are
    True.
    """
    for index in sorted(indices):
        path = pair.writes[index].tag_path
        if not path:
            yield index, (True,) * len(pair.intended.outputs)
            continue
        mark = pair.space.mark(("results of", path))
        yield index, tuple([bool(labels & mark) for labels in evaluator.run_intended({path: mark}).outputs])
