"""Judges each output of one schedule. This docstring lists all steps that decide or change a verdict, in this module
and in others.

`judge` takes these steps, in this order:

- `Comparison.compare` compares the two dependence sets of each output, which say on which hidden writes it depends in
  the program and in the schedule. The result is stale, clobbered, unknown, latent or fresh.
- `compared_edges.find_wrong_operations` compares the edges of operations and operands in the same way, also where XLA has
  moved a slice or a collective behind its users (`moved_operations`). `merged_uses` removes the writes about which an
  instruction is right for each of the merged operations for which it is used. `bystanders` removes the writes whose bytes an
  operation does not read wrongly (`DirectErrors.refine`).
- `blame` makes outputs worse that depend on a wrong operation or on merged values although their own sets agree, and
  names the reads at which the outputs start to be wrong.
- `ambiguity_search` finds outputs that depend on something unknown; `propagate` makes such an output unknown for the
  write in question, and no longer blames the output on any read.
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

An output is unknown for a hidden write if it depends on an ambiguity about that write (see `ambiguities`), whatever else the
write does to it. The verdict on the output for another write stays.

Dependence sets describe only hidden writes, and presuppose that every kernel call produces its results. If the program
always makes a call and the schedule may skip it, an output that depends on the call's results is unknown, or stale if
the call certainly never runs (`judge_conditional_results`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator
from ligerdiag.analysis.evaluation.ambiguities import Ambiguities, Ambiguity
from ligerdiag.analysis.evaluation.carriers import Carriers, find_lost_carriers
from ligerdiag.analysis.evaluation.labels import Labels
from ligerdiag.analysis.verdict.ambiguity_search import AmbiguitySearch
from ligerdiag.analysis.verdict.blame import Blamed, BlameSearch, ReadFinding, find_latent
from ligerdiag.analysis.verdict.bystanders import find_direct_errors, needs_direct_errors
from ligerdiag.analysis.verdict.compared_edges import Differing, compare_outputs, find_wrong_operations
from ligerdiag.analysis.verdict.comparison import Cause, Comparison, OutputVerdict, find_worst
from ligerdiag.analysis.verdict.merged_uses import MergedUses
from ligerdiag.analysis.verdict.operand_provenance import OperandProvenance
from ligerdiag.analysis.verdict.schedule_alone import judge_outputs_alone
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.access import WriteCoverage
from ligerdiag.hlo.dataflow import unite
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place, ReadKind


def propagate(found: Blamed, ambiguities: Ambiguities, order_unknown: frozenset[int] = frozenset()) -> Blamed:
    """Returns a copy of the verdicts in which outputs that depend on ambiguities are unknown. An ambiguity is an unknown
    fact about a hidden write. The output is unknown for this write, and no read is blamed for it.

    order_unknown: indices of the writes around which the author's order is unknown. Outputs that depend on them become
    unknown too.
    """
    unclear = {
        name: {one.write for one in ambiguities.get(name, ())}
        | {cause.write for cause in output.causes if cause.write in order_unknown}
        for name, output in found.outputs.items()
    }
    certain = found.drop(lambda name, cause: cause.write in unclear[name])
    unknown = {name: tuple([Cause(w, Verdict.UNKNOWN) for w in sorted(writes)]) for name, writes in unclear.items()}
    return replace(certain, outputs={name: output.join(unknown[name]) for name, output in certain.outputs.items()})


def drop_disjoint_rows(found: Blamed, ambiguities: Ambiguities, evaluator: Evaluator) -> tuple[Blamed, Ambiguities]:
    """Returns copies of the verdicts and the ambiguities, without hidden writes to rows that the output does not use. The
    verdict on the output can get better.

    Adds to `Blamed.decided` the outputs that are wrong only about kernels that write some rows of their operand, or that may
    do so while only a part of it is read. Right numbers do not contradict such a verdict, because the kernel may not write
    the rows that are read.
    """
    written, unused = evaluator.find_disjoint_rows()
    left = {
        name: evaluator.space.bits_of(output.wrong) & ~written for name, output in found.outputs.items() if output.wrong
    }
    in_part = _list_read_in_part(left, tuple(found.outputs), evaluator)
    by_rows = frozenset(name for name, bits in left.items() if not bits)
    found = replace(found, decided=found.decided | by_rows | in_part, in_part=in_part)
    dropped = {name: set(evaluator.space.writes_of(bits)) for name, bits in zip(found.outputs, unused, strict=False)}
    if not any(dropped.values()):
        return found, ambiguities
    unclear = {name: frozenset(o for o in some if o.write not in dropped[name]) for name, some in ambiguities.items()}
    return found.drop(lambda name, cause: cause.write in dropped[name]), unclear


def _list_read_in_part(wrong: Mapping[str, Labels], names: Sequence[str], evaluator: Evaluator) -> frozenset[str]:
    """Returns the names of the outputs that depend only on parts of the operands that they are wrong about, if kernels may
    leave these parts alone.

    wrong: maps the name of an output to hidden writes about which it is wrong, as bits. names: names of all outputs.
    """
    space = evaluator.space
    some = {one.index for one in evaluator.writes if not one.unknown and _may_write_in_part(one, evaluator)}
    followed = space.bits_of(some)
    asked = {name: bits for name, bits in wrong.items() if bits and not bits & ~followed}
    if not asked:
        return frozenset()
    read_whole = dict(zip(names, evaluator.find_read_whole(space.writes_of(unite(asked.values()))), strict=False))
    return frozenset(name for name, bits in asked.items() if not bits & read_whole.get(name, bits))


def _may_write_in_part(write: HiddenWrite, evaluator: Evaluator) -> bool:
    uses = evaluator.effects_of(write.call).operand_uses
    return write.operand < len(uses) and uses[write.operand].coverage is not WriteCoverage.COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdicts:
    """The verdicts on all outputs of one schedule, and the evidence for them."""

    outputs: Mapping[str, OutputVerdict]
    """Maps the name of each output to the verdict on it, in the program's order."""
    reads: tuple[ReadFinding, ...] = ()
    """The reads that make outputs stale, then those that make outputs clobbered, then those that make outputs latent."""
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
    in_part: frozenset[str] = frozenset()
    """Names of the outputs for which only parts of overwritten values are read: parts that the kernels may leave alone."""
    merged: frozenset[int] = frozenset()
    """Indices of the hidden writes of calls that XLA merged with others, both of the calls that are gone and of those that
    remain.
    """
    gone: frozenset[int] = frozenset()
    """Indices of the hidden writes that the schedule does not perform, not even as part of a merged call."""

    @property
    def stale(self) -> tuple[ReadFinding, ...]:
        """Returns the reads that make outputs stale."""
        return self.list_reads(Verdict.STALE)

    @property
    def clobbered(self) -> tuple[ReadFinding, ...]:
        """Returns the reads that make outputs clobbered."""
        return self.list_reads(Verdict.CLOBBERED)

    @property
    def latent(self) -> tuple[ReadFinding, ...]:
        """Returns the reads that make outputs latent: right only by luck."""
        return self.list_reads(Verdict.LATENT)

    def list_reads(self, verdict: Verdict) -> tuple[ReadFinding, ...]:
        """Returns the reads that give outputs the verdict `verdict`, which is STALE, CLOBBERED or LATENT."""
        return tuple([read for read in self.reads if read.verdict is verdict])

    def list_unexplained(self, write: int, verdict: Verdict) -> tuple[str, ...]:
        """Returns the names of the outputs that are wrong about a hidden write although no read explains it. write: index of
        the hidden write. verdict: STALE or CLOBBERED.
        """
        reads = self.list_reads(verdict)
        explained = {name for read in reads if read.write.index == write for name in read.outputs}
        wrong = [n for n, o in self.outputs.items() if any(c.write == write and c.verdict is verdict for c in o.causes)]
        return tuple([name for name in wrong if name not in explained])

    def list_mixing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the loops and conditionals from which some outputs may get the wrong one of several merged values, by
        name. names: names of these outputs.
        """
        return tuple(dict.fromkeys(one for name in names for one in self.mixed.get(name, ())))

    def misses_merged_call(self, name: str) -> bool:
        """Returns whether an output misses the write of a kernel call that XLA merged with a second call."""
        return not self.merged.isdisjoint(self._list_missed(name))

    def misses_only_gone_calls(self, name: str) -> bool:
        """Returns whether the schedule performs none of the writes that an output misses. A write of a merged call
        counts as performed. False if the output misses no write.
        """
        missed = self._list_missed(name)
        return bool(missed) and missed <= self.gone

    def _list_missed(self, name: str) -> set[int]:
        return {cause.write for cause in self.outputs[name].causes if cause.verdict is Verdict.STALE}


class ReadCause(StrEnum):
    """The reason for the verdict on a read. Each reason is one of the statements in the docstring of `verdict.reads`."""

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
        """Returns whether the verdict on the read follows from an output that is wrong, or right only by luck. True for
        BLAMED and DIVERGES_FIRST.
        """
        return self in (ReadCause.BLAMED, ReadCause.DIVERGES_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadVerdict:
    """The verdict on one read: a scheduled instruction and an overwritten value that it reads."""

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
    outputs = compare_outputs(output_names, pair, comparison)
    provenance = OperandProvenance(pair.intended, pair.actual, evaluator)
    differing = find_wrong_operations(provenance, comparison)
    if evaluator.is_tagged:
        differing = MergedUses(provenance, comparison).refine(differing)
    direct = None
    if needs_direct_errors(differing, outputs):
        direct = find_direct_errors(output_names, pair=pair, evaluator=evaluator, comparison=comparison)
        differing = direct.refine(differing)
    blamed = BlameSearch(
        pair=pair, differing=differing, comparison=comparison, evaluator=evaluator, provenance=provenance
    ).find(outputs)
    ambiguities: Ambiguities = {}
    if pair.writes:
        ambiguities = AmbiguitySearch(
            blamed=blamed, pair=pair, differing=differing, comparison=comparison, evaluator=evaluator
        ).find(possible)
    blamed = propagate(blamed, ambiguities, pair.matching.order_unknown)
    if any(output.verdict is not Verdict.FRESH for output in blamed.outputs.values()):
        blamed, ambiguities = drop_disjoint_rows(blamed, ambiguities, evaluator)
    if direct is not None:
        blamed = direct.drop_bystanders(blamed)
    merged = pair.matching.merged_into
    mixed = {name: tuple([one.instruction for one in found if one.instruction]) for name, found in blamed.mixed.items()}
    return Verdicts(
        outputs=blamed.outputs,
        reads=(*blamed.reads, *find_latent(pair, blamed.outputs)),
        ambiguities=ambiguities,
        comparison=comparison,
        differing=differing,
        mixed=mixed,
        decided=blamed.decided,
        in_part=blamed.in_part,
        merged=frozenset((*merged, *merged.values())),
        gone=frozenset(write.index for write in pair.matching.missing) - merged.keys(),
    )


def judge_alone(pair: EvaluatedPair, output_names: tuple[str, ...]) -> Verdicts:
    """Returns the verdict on each output, judged from the schedule alone: for dumps that lack the program as written."""
    return Verdicts(outputs=judge_outputs_alone(pair, output_names), comparison=_create_comparison(pair))


def make_outputs_unknown(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Returns a copy of the verdicts in which some outputs are unknown. numbers: their 0-based numbers. An output keeps a
    verdict that is worse than unknown.
    """
    return _make_worse(verdicts, numbers, Verdict.UNKNOWN)


def make_outputs_clobbered(verdicts: Verdicts, numbers: frozenset[int]) -> Verdicts:
    """Returns a copy of the verdicts in which some outputs are clobbered. XLA overwrites a value that they still need.
    numbers: their 0-based numbers. A stale output stays stale.
    """
    return _make_worse(verdicts, numbers, Verdict.CLOBBERED)


def _make_worse(verdicts: Verdicts, numbers: frozenset[int], least: Verdict) -> Verdicts:
    return worsen_outputs(verdicts, [name for number, name in enumerate(verdicts.outputs) if number in numbers], least)


def worsen_outputs(verdicts: Verdicts, names: Sequence[str], verdict: Verdict) -> Verdicts:
    """Returns a copy of the verdicts in which the outputs `names` have the verdict `verdict`. An output keeps its own
    verdict if it is worse.
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
    """Returns a copy of the verdicts with worse verdicts on outputs that need a call, if the call may not run. They are
    stale if the schedule never makes the call, and unknown if it makes the call only under a condition that the program
    lacks.
    """
    matching = pair.matching
    if not pair.has_program or not (matching.idle or matching.conditional):
        return verdicts
    causes = [Cause(index, Verdict.UNKNOWN) for index in sorted(matching.conditional)]
    causes += [Cause(index, Verdict.STALE) for index in sorted(matching.idle)]
    paths = [pair.writes[cause.write].tag_path for cause in causes]  # without a tag, each output may depend on the call
    outputs = dict(verdicts.outputs)
    for (name, output), found in zip(
        verdicts.outputs.items(), evaluator.find_dependents(filter(None, paths)), strict=False
    ):
        joined = [cause for cause, path in zip(causes, paths, strict=True) if not path or path in found]
        outputs[name] = output.join(tuple(joined))
    return replace(verdicts, outputs=outputs)
