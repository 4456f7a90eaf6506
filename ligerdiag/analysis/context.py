"""Everything that the rules look at: both programs, their dependence sets, the verdicts and the evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ligerdiag.analysis.accesses import Accesses
from ligerdiag.analysis.actual import Actual
from ligerdiag.analysis.belief import Belief
from ligerdiag.analysis.carriers import compute_carried, compute_carriers
from ligerdiag.analysis.concurrency import find_concurrency
from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.evaluations import Evaluations
from ligerdiag.analysis.followed_writes import FollowedWrites, follow_writes
from ligerdiag.analysis.fusion_summaries import FusionSummaries
from ligerdiag.analysis.labels import LabelSpace
from ligerdiag.analysis.matching import Matching, adopt_foreign, find_same, match_writes
from ligerdiag.analysis.places import Places
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.retag import Retagged
from ligerdiag.analysis.roundings import Rounding, find_roundings
from ligerdiag.analysis.vanished import TracedCall, VanishedCall, find_vanished
from ligerdiag.analysis.verdict.reads import judge_reads
from ligerdiag.analysis.verdict.verdicts import ReadVerdict, Verdicts, judge
from ligerdiag.analysis.writes import (
    EffectsOf,
    HiddenWrite,
    count_loops,
    find_hidden_operands,
    find_hidden_writes,
    iterate_kernel_calls,
)
from ligerdiag.effects.access import CallEffects
from ligerdiag.effects.declared import Contradiction
from ligerdiag.findings import SourceLine
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.command_order import CommandOrder
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Positions
from ligerdiag.hlo.tags import TagPath
from ligerdiag.hlo.thunks import ThunkSequence


@dataclass(frozen=True, kw_only=True, eq=False)
class Context(EvaluatedPair):
    """Input of every rule."""

    verdicts: Verdicts
    vanished: tuple[VanishedCall, ...]
    calls: tuple[tuple[HloInstruction, CallEffects], ...]
    """Every custom call of the program as written, with its effects."""
    optimized_calls: tuple[tuple[HloInstruction, CallEffects], ...] = ()
    """Every custom call of the optimized module."""
    contradictions: tuple[tuple[HloInstruction, Contradiction], ...] = ()
    """What is declared of a custom call and is not so, with a call that shows it."""
    roundings: tuple[Rounding, ...] = ()
    accesses: Mapping[int, Accesses] = field(default_factory=dict[int, Accesses])
    """HiddenWrite index to who reads what around it, where there is no program that would say who wants what."""
    refuted: frozenset[int] = frozenset()
    """Ids of optimized instructions whose tags the operands contradict (see `belief`)."""
    sites: Mapping[int, SourceLine] = field(default_factory=dict[int, SourceLine])
    """Tag of a kernel's custom call to the line that makes the call, as the trace knows it."""

    @cached_property
    def followed(self) -> FollowedWrites:
        """What is computed from what in the schedule; made when first asked for, as the next one."""
        return follow_writes(self)

    @cached_property
    def reads(self) -> tuple[ReadVerdict, ...]:
        """Every read of an overwritten value, judged."""
        return judge_reads(self, self.verdicts, self.followed)


def create_context(
    pair: EvaluatedPair,
    *,
    verdicts: Verdicts,
    vanished: tuple[VanishedCall, ...],
    calls: tuple[tuple[HloInstruction, CallEffects], ...],
    optimized_calls: tuple[tuple[HloInstruction, CallEffects], ...],
    roundings: tuple[Rounding, ...] = (),
    accesses: Mapping[int, Accesses] | None = None,
    refuted: frozenset[int] = frozenset(),
) -> Context:
    """The pair, with its verdicts and with what rules want beside them."""
    return Context(
        program=pair.program,
        optimized=pair.optimized,
        buffers=pair.buffers,
        positions=pair.positions,
        writes=pair.writes,
        matching=pair.matching,
        space=pair.space,
        intended=pair.intended,
        actual=pair.actual,
        concurrency=pair.concurrency,
        verdicts=verdicts,
        vanished=vanished,
        calls=calls,
        optimized_calls=optimized_calls,
        roundings=roundings,
        accesses=accesses or {},
        refuted=refuted,
    )


def compute_context(
    *,
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects_of: EffectsOf,
    output_names: tuple[str, ...],
    traced_calls: tuple[TracedCall, ...],
    retagged: Retagged | None = None,
    folded: bool = False,
    belief: Belief | None = None,
    thunks: ThunkSequence | None = None,
    command_order: CommandOrder = CommandOrder.SCHEDULE,
) -> Context:
    """Run every analysis on one compilation.

    retagged: what the tags of both modules rest on, when it is not the compile worker. folded: `program` is not as
    written, but as MLIR has folded it. belief: what the tags of the optimized module stand, where it came from elsewhere;
    those that cannot be true are not in it any more. thunks and command_order: see `concurrency`.
    """
    writes = find_hidden_writes(program, effects_of)
    positions = Positions(optimized, buffers)
    candidates: Mapping[TagPath, tuple[TagPath, ...]] = retagged.ambiguous if retagged is not None else {}
    matching = match_writes(writes, optimized, positions, effects_of, candidates)
    if matching.foreign:
        writes = (*writes, *_find_foreign_writes(optimized, writes, matching, effects_of))
        matching = adopt_foreign(matching, writes, positions)
    carriers = compute_carriers(writes)
    depth = max((w.loop_depth for w in writes), default=0)
    space = LabelSpace(len(writes), depth)
    concurrency = find_concurrency(
        optimized, buffers, positions, matching.actual, thunks=thunks, command_order=command_order
    )
    run = Evaluations(
        program,
        optimized,
        FusionSummaries(optimized, Places(buffers, positions)),
        writes,
        space,
        carriers,
        effects_of,
        matching,
        retagged,
        folded,
        concurrency.races,
        compute_carried(optimized, carriers, candidates, space),
    )
    intended, actual = Intended((), {}), Actual((), {}, (), {})
    if writes:
        intended = run.run_intended()
        same = find_same(matching, writes, intended, space)
        if same:
            matching = replace(matching, same=same)
            acting = tuple([replace(write, index=same.get(write.index, write.index)) for write in writes])
            carriers = compute_carriers(acting)
            run = replace(
                run,
                writes=acting,
                carriers=carriers,
                matching=matching,
                carried=compute_carried(optimized, carriers, candidates, space),
            )
            intended = run.run_intended()
        wanted = frozenset(path for path, tagged in intended.tagged.items() if tagged.labels)
        actual = run.run_actual(wanted | candidates.keys())
    pair = EvaluatedPair(
        program=program,
        optimized=optimized,
        buffers=buffers,
        positions=positions,
        writes=writes,
        matching=matching,
        space=space,
        intended=intended,
        actual=actual,
        concurrency=concurrency,
    )
    possible = belief.find_possible_carriers(optimized, carriers, space) if belief is not None and writes else {}
    return create_context(
        pair,
        verdicts=judge(pair, run, output_names, possible),
        vanished=find_vanished(traced_calls, matching, intended, space),
        calls=tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(program)]),
        optimized_calls=tuple([(call, effects_of(call)) for call in _list_calls(optimized)]),
        roundings=find_roundings(writes, output_names, run.run_intended, space.mark),
        refuted=frozenset() if belief is None else belief.refuted,
    )


def _list_calls(module: HloModule) -> tuple[HloInstruction, ...]:
    """Each custom call once, however often it is reached."""
    return tuple({call.id: call for _, call in iterate_kernel_calls(module)}.values())


def _find_foreign_writes(
    optimized: HloModule, writes: tuple[HiddenWrite, ...], matching: Matching, effects_of: EffectsOf
) -> Iterator[HiddenWrite]:
    """Writes of calls that are nobody's: whether they are meant to be seen is not known."""
    number = len(writes)
    for frames in matching.foreign:
        call = frames[-1].instruction
        effects = effects_of(call)
        for operand in find_hidden_operands(call, effects):
            yield HiddenWrite(number, effects.kernel, operand, True, (), count_loops(frames), frames, optimized)
            number += 1
