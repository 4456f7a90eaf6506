"""Everything that the rules look at: both programs, their dependence sets, the verdicts and the evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ligerdiag.analysis.accesses import Accesses
from ligerdiag.analysis.actual import Actual
from ligerdiag.analysis.belief import Belief
from ligerdiag.analysis.carriers import compute_carried, compute_carriers
from ligerdiag.analysis.comparison import Comparison, OutputComparison
from ligerdiag.analysis.concurrency import Concurrency, find_concurrency
from ligerdiag.analysis.doubts import Doubt
from ligerdiag.analysis.evidence import find_differing
from ligerdiag.analysis.fusion_summaries import FusionSummaries
from ligerdiag.analysis.labels import LabelSpace
from ligerdiag.analysis.matching import Matching, adopt_foreign, find_same, match_writes
from ligerdiag.analysis.order import compute_logical_times
from ligerdiag.analysis.places import Places
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.retag import Retagged
from ligerdiag.analysis.roundings import Rounding, find_roundings
from ligerdiag.analysis.runner import Runner
from ligerdiag.analysis.search import ReadFinding, Search, find_latent
from ligerdiag.analysis.settling import Doubter, Doubts, add_crowded, settle
from ligerdiag.analysis.unidentified import add_unidentified
from ligerdiag.analysis.vanished import TracedCall, VanishedCall, find_vanished
from ligerdiag.analysis.writes import (
    EffectsOf,
    HiddenWrite,
    count_loops,
    find_hidden_operands,
    find_hidden_writes,
    iterate_kernel_calls,
)
from ligerdiag.analysis.wrong_edges import find_wrong_edges
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
class Context:
    """Input of every rule. `outputs` is in the program's order."""

    program: HloModule
    """The unoptimized module."""
    optimized: HloModule
    buffers: BufferAssignment
    positions: Positions
    """Where the optimized module's values stand in `buffers`."""
    writes: tuple[HiddenWrite, ...]
    matching: Matching
    intended: Intended
    actual: Actual
    outputs: Mapping[str, OutputComparison]
    stale: tuple[ReadFinding, ...]
    clobbered: tuple[ReadFinding, ...]
    latent: tuple[ReadFinding, ...]
    vanished: tuple[VanishedCall, ...]
    calls: tuple[tuple[HloInstruction, CallEffects], ...]
    """Every custom call of the program as written, with its effects."""
    optimized_calls: tuple[tuple[HloInstruction, CallEffects], ...] = ()
    """Every custom call of the optimized module."""
    contradictions: tuple[tuple[HloInstruction, Contradiction], ...] = ()
    """What is declared of a custom call and is not so, with a call that shows it."""
    roundings: tuple[Rounding, ...] = ()
    doubts: Doubts = field(default_factory=dict[str, frozenset[Doubt]])
    """Output name to what cannot be told about it, where the modules are not the compile worker's."""
    accesses: Mapping[int, Accesses] = field(default_factory=dict[int, Accesses])
    """HiddenWrite index to who reads what around it, where there is no program that would say who wants what."""
    concurrency: Concurrency = field(default_factory=Concurrency)
    """Who reads while a kernel overwrites what it reads."""
    refuted: frozenset[int] = frozenset()
    """Ids of optimized instructions whose tags the operands contradict (see `belief`)."""
    sites: Mapping[int, SourceLine] = field(default_factory=dict[int, SourceLine])
    """Tag of a kernel's custom call to the line that makes the call, as the trace knows it."""

    @cached_property
    def logical_times(self) -> Mapping[int, int]:
        """Instruction id in the optimized module to LogicalTime."""
        return compute_logical_times(self.optimized)

    def optimized_call(self, write: HiddenWrite) -> HloInstruction | None:
        """The custom call in the optimized module that performs the write."""
        return next((w.call for w in self.actual.writes if w.write == write.index), None)


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
    run = Runner(
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
    undecided = frozenset(w.index for w in matching.unplaced) | matching.ambiguous
    comparison = Comparison(writes, space, matching.moved, undecided, actual.traced)
    outputs = {
        name: comparison.compare(
            intended.outputs[n] if n < len(intended.outputs) else 0, actual.outputs[n] if n < len(actual.outputs) else 0
        )
        for n, name in enumerate(output_names)
    }
    instructions = {i.id: i for c in optimized.computations.values() for i in c.instructions}
    differing = find_differing(intended, actual, comparison)
    if retagged is None and not folded:
        differing += tuple(find_wrong_edges(intended, actual, comparison, run))
    search = Search(
        writes=writes,
        intended=intended,
        actual=actual,
        differing=differing,
        comparison=comparison,
        run=run,
        instructions=instructions,
    )
    found = search.run_search(outputs)
    doubts: Doubts = {}
    if writes:
        doubts = Doubter(
            outputs=found.outputs,
            intended=intended,
            actual=actual,
            differing=differing,
            comparison=comparison,
            run=run,
        ).find_doubts()
        if belief is not None:
            possible = belief.find_possible_carriers(optimized, carriers, space)
            doubts = add_unidentified(
                doubts, possible, found.outputs, intended=intended, comparison=comparison, run=run
            )
    if found.crowded:
        doubts = add_crowded(doubts, found.crowded)
    found = settle(found, doubts)
    return Context(
        program=program,
        optimized=optimized,
        buffers=buffers,
        positions=positions,
        writes=writes,
        matching=matching,
        intended=intended,
        actual=actual,
        outputs=found.outputs,
        stale=found.stale,
        clobbered=found.clobbered,
        latent=find_latent(writes, found.outputs, instructions),
        vanished=find_vanished(traced_calls, matching, intended, space),
        calls=tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(program)]),
        optimized_calls=tuple([(call, effects_of(call)) for call in _list_calls(optimized)]),
        roundings=find_roundings(writes, output_names, run.run_intended, space.mark),
        doubts=doubts,
        concurrency=concurrency,
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
