"""Builds the input of every rule, a `Context`. It has the program and the schedule, the hidden writes on which each of their
values depends, the verdicts, and the evidence.

`compute_context_without_program` builds a `Context` from the optimized module alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from ligerdiag.analysis.evaluated_pair import EvaluatedPair, Evaluator, Rounding, find_unrelated
from ligerdiag.analysis.evaluation.carriers import (
    Carriers,
    carry_displaced,
    compute_carried,
    compute_carriers,
    find_lost_carriers,
)
from ligerdiag.analysis.evaluation.fusions import FusionSummaries
from ligerdiag.analysis.evaluation.label_memory import Actual, ActualWrite, Places
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace
from ligerdiag.analysis.evaluation.memory_uses import Accesses, find_accesses
from ligerdiag.analysis.evaluation.order import compute_logical_times
from ligerdiag.analysis.evaluation.program_order import Intended
from ligerdiag.analysis.lost_refs import LostRef
from ligerdiag.analysis.provenance import Retagged
from ligerdiag.analysis.races import find_concurrency
from ligerdiag.analysis.tag_trust import TagTrust, compute_tag_trust, is_spmd_partitioned
from ligerdiag.analysis.value_flow import FollowedWrites, follow_writes
from ligerdiag.analysis.verdict.reads import judge_reads
from ligerdiag.analysis.verdict.schedule_alone import MixedUpDonations
from ligerdiag.analysis.verdict.verdicts import ReadVerdict, Verdicts, judge, judge_alone, judge_conditional_results
from ligerdiag.analysis.write_correspondence import (
    Matching,
    TracedKernel,
    VanishedCall,
    assign_unmatched_calls,
    find_conditional,
    find_identical,
    find_vanished,
    match_writes,
)
from ligerdiag.analysis.writes import (
    BrokenAliases,
    EffectsOf,
    HiddenWrite,
    count_loops,
    find_hidden_operands,
    find_hidden_writes,
    iterate_kernel_calls,
)
from ligerdiag.artifacts.artifact import ANY_OPERAND
from ligerdiag.artifacts.call_records import MovedRef
from ligerdiag.effects.access import CallEffects
from ligerdiag.effects.declared import Contradiction
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.fused_aliases import find_broken_aliases
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath, find_user_line
from ligerdiag.hlo.shared_bytes import SharedBytes
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence
from ligerdiag.memory.memory_use import MemoryAnalysis
from ligerdiag.model.findings import SourceLine


@dataclass(frozen=True, kw_only=True, eq=False)
class Context(EvaluatedPair):
    """The input of every rule: the program, the schedule, the verdicts and the evidence. Both program and schedule come with
    dependence sets, which say on which hidden writes each value depends.
    """

    verdicts: Verdicts
    vanished: tuple[VanishedCall, ...]
    calls: tuple[tuple[HloInstruction, CallEffects], ...]
    """Every custom call of the program as written, with its effects."""
    optimized_calls: tuple[tuple[HloInstruction, CallEffects], ...] = ()
    """Every custom call of the optimized module, with its effects."""
    contradictions: tuple[tuple[HloInstruction, Contradiction], ...] = ()
    """Each declared effect that is untrue, with a custom call that shows it."""
    roundings: tuple[Rounding, ...] = ()
    accesses: Mapping[int, Accesses] = field(default_factory=dict[int, Accesses])
    """Maps the index of a hidden write to the instructions that read the overwritten memory before and after the kernel
    runs. Filled only if there is no program as written, which would say which version each of them should read.
    """
    refuted: frozenset[int] = frozenset()
    """Ids of instructions in the optimized module that cannot compute the operation whose tag they have, because they are
    computed from other values (see `tag_trust`).
    """
    sites: Mapping[int, SourceLine] = field(default_factory=dict[int, SourceLine])
    """Maps the tag of a kernel's custom call (the number that ligerdiag gives each operation before the compile) to the
    line of the user's code that makes the call, according to the trace.
    """
    repeated: Mapping[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict[int, tuple[tuple[int, ...], ...]])
    """Maps the tag of a kernel's custom call (see `sites`) to groups of operand numbers, such as ((0, 2),): according
    to the trace, the user passes one `Ref` for all operands of a group.
    """
    mixed_up: MixedUpDonations | None = None
    lost_refs: tuple[LostRef, ...] = ()
    """Kernel calls and stores whose write to a Ref JAX lost before XLA got the program."""
    moved_refs: tuple[MovedRef, ...] = ()
    """Reads of Refs that JAX moved away from the writes that should come before them, according to the trace."""
    shared: tuple[SharedBytes, ...] = ()
    """Pairs of values that are alive at the same time in the same bytes of XLA's own buffer assignment."""
    arguments_line: SourceLine | None = None
    """The line that gives the program its arguments, if some of these are one array."""
    memory: MemoryAnalysis | None = None
    """The copies, the donations and the memory use of the optimized module; None without a schedule or without XLA's
    own buffer assignment.
    """

    def find_call_line(self, write: HiddenWrite) -> SourceLine | None:
        """Returns the line of the user's code that makes the call of a hidden write. If the traced jaxpr has no such line,
        it is taken from the HLO.
        """
        site = self.sites.get(write.tag_path[-1]) if write.tag_path else None
        return site or find_user_line(write.module, write.call)

    @cached_property
    def followed(self) -> FollowedWrites:
        """Returns the graph of the schedule's values: which value is computed from which. The graph includes hidden
        writes (see `value_flow`); it is computed on first use.
        """
        return follow_writes(self)

    @cached_property
    def reads(self) -> tuple[ReadVerdict, ...]:
        """Returns the verdict on every read of an overwritten value; computed on first use."""
        return judge_reads(self, self.verdicts, self.followed)


def _list_fields(pair: EvaluatedPair) -> dict[str, Any]:
    """Returns the fields of an evaluated pair by name, as arguments for a `Context`."""
    return {one.name: getattr(pair, one.name) for one in fields(pair)}


def compute_context(
    *,
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects_of: EffectsOf,
    output_names: tuple[str, ...],
    traced_calls: tuple[TracedKernel, ...],
    retagged: Retagged | None = None,
    canonicalized: bool = False,
    has_snapshots: bool = True,
    tag_trust: TagTrust | None = None,
    thunks: ThunkSequence | None = None,
    command_order: CommandOrder = CommandOrder.SCHEDULE,
    is_assigned: bool = True,
    crossed_operands: frozenset[int] = frozenset(),
) -> Context:
    """Runs every analysis on one compilation, and returns the context for its rules.

    program: the module as written. effects_of: returns the effects of a custom call's kernel. output_names: name of each
    leaf of the program's result. traced_calls: the kernel calls of the traced jaxpr. retagged: both modules with tags (the
    numbers of the program's operations) that were computed from XLA's metadata, if the compile worker did not tag them.
    canonicalized: whether MLIR's canonicalizer has changed `program`. has_snapshots: whether snapshots in `program` show
    which version a derivative means (see `Evaluator`). tag_trust: how far to trust the tags of an optimized module that
    ligerdiag did not compile; `optimized` lacks the tags that it refutes. thunks, command_order: the steps that XLA's
    runtime executes, and the order that it keeps within a command buffer (see `races`). is_assigned: whether `buffers` is
    XLA's own assignment. crossed_operands: operand numbers of kernel calls, or ANY_OPERAND for all. JAX changed
    the author's order of operations around a write to one of these operands, but it is unknown in which kernel call. So
    everything that depends on a write to these operands, in any call, stays undecided.
    """
    positions = Positions(optimized, buffers)
    broken = BrokenAliases(find_broken_aliases(optimized, positions, is_assigned=is_assigned))
    writes = find_hidden_writes(program, effects_of, broken.find_in_program(optimized))
    candidates: Mapping[TagPath, tuple[TagPath, ...]] = retagged.ambiguous if retagged is not None else {}
    matching = match_writes(writes, optimized, positions, effects_of, candidates, broken=broken)
    if matching.unmatched:
        writes = (*writes, *_find_unmatched_writes(optimized, writes, matching, effects_of, broken))
        matching = assign_unmatched_calls(matching, writes, positions)
    order_unknown = frozenset(write.index for write in writes if {write.operand, ANY_OPERAND} & crossed_operands)
    matching = find_conditional(replace(matching, order_unknown=order_unknown), writes, optimized)
    carriers = compute_carriers(writes)
    found = (count_loops(optimized, one.frames) for one in matching.actual)
    space = LabelSpace(len(writes), max([*(write.loop_depth for write in writes), *found], default=0))
    concurrency = find_concurrency(
        optimized, buffers, positions, matching.actual, thunks=thunks, command_order=command_order
    )
    fusions = FusionSummaries(optimized, Places(buffers, positions))
    carried = compute_carried(optimized, carriers, candidates, space)
    arguments = program, optimized, fusions, writes, space, carriers, effects_of, matching
    evaluator = Evaluator(
        *arguments,
        retagged,
        canonicalized,
        concurrency.races,
        carried,
        has_snapshots=has_snapshots and not canonicalized,
    )
    intended, actual = Intended((), {}), Actual((), {}, (), {})
    if writes:
        intended = evaluator.run_intended()
        identical = find_identical(matching, writes, intended, space)
        if identical:
            matching = replace(matching, identical=identical)
            acting = tuple([replace(write, index=identical.get(write.index, write.index)) for write in writes])
            carriers = compute_carriers(acting)
            carried = compute_carried(optimized, carriers, candidates, space)
            evaluator = replace(evaluator, writes=acting, carriers=carriers, matching=matching, carried=carried)
            intended = evaluator.run_intended()
        if retagged is None and tag_trust is None and not canonicalized:
            evaluator = replace(evaluator, unrelated=find_unrelated(intended, matching, space))
        performed = [_perform(writes, one, optimized) for one in matching.actual]
        carriers, carried = carry_displaced(optimized, carriers, carried, performed, space)
        evaluator = replace(evaluator, carriers=carriers, carried=carried)
        wanted = frozenset(path for path, tagged in intended.tagged.items() if tagged.labels)
        actual = evaluator.run_actual(wanted | candidates.keys())
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
    calls = {call.id: call for _, call in iterate_kernel_calls(optimized)}.values()
    possible: Mapping[int, Labels] = {}
    if tag_trust is not None and writes:
        possible = tag_trust.find_possible_carriers(optimized, carriers, space)
    elif retagged is None and not canonicalized:
        possible = _find_partitioned_carriers(program, optimized, carriers, space)
    return Context(
        **_list_fields(pair),
        verdicts=judge_conditional_results(judge(pair, evaluator, output_names, possible), pair, evaluator),
        vanished=find_vanished(traced_calls, matching, intended, space),
        calls=tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(program)]),
        optimized_calls=tuple([(call, effects_of(call)) for call in calls]),
        roundings=evaluator.find_roundings(writes, output_names),
        refuted=frozenset() if tag_trust is None else tag_trust.refuted,
    )


def _perform(writes: tuple[HiddenWrite, ...], actual: ActualWrite, optimized: HloModule) -> HiddenWrite:
    """Returns the hidden write that `actual` performs, with the call path and the module of the optimized call instead
    of those of the program's call.
    """
    return replace(writes[actual.write], frames=actual.frames, module=optimized)


def _find_partitioned_carriers(
    program: HloModule, optimized: HloModule, carriers: Carriers, space: LabelSpace
) -> Mapping[int, Labels]:
    """Maps the id of each optimized instruction without a tag that may be a carrier, that is, may hold the contents
    from before a write, to the ORIG labels that every value computed from it would then get. An ORIG label says that a
    value depends on the contents from before a write (see `comparison`).

    The SPMD partitioner leaves some instructions without a tag. Empty if the module is not partitioned, or if every
    carrier of the program is found by its tag.
    """
    lost = find_lost_carriers(optimized, carriers) if is_spmd_partitioned(program, optimized) else None
    if lost is None or not lost.paths:
        return {}
    possible = compute_tag_trust(program, optimized).find_possible_carriers(optimized, lost, space)
    return {number: labels for number, labels in possible.items() if number not in optimized.tags}


def _find_unmatched_writes(
    optimized: HloModule,
    writes: tuple[HiddenWrite, ...],
    matching: Matching,
    effects_of: EffectsOf,
    broken: BrokenAliases,
) -> Iterator[HiddenWrite]:
    """Yields the hidden writes of scheduled calls that the program as written lacks; it is unknown whether the author
    means these writes.
    """
    number = len(writes)
    for frames in matching.unmatched:
        call = frames[-1].instruction
        effects = effects_of(call)
        for operand in find_hidden_operands(call, effects, broken.list_operands(call)):
            yield HiddenWrite(
                number, effects.kernel, operand, True, (), count_loops(optimized, frames), frames, optimized
            )
            number += 1


def compute_context_without_program(
    *,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects_of: EffectsOf,
    output_names: tuple[str, ...],
    traced_calls: tuple[TracedKernel, ...] = (),
    thunks: ThunkSequence | None = None,
    command_order: CommandOrder = CommandOrder.SCHEDULE,
    is_assigned: bool = True,
) -> Context:
    """Returns the context of an optimized module for which there is no program as written. The context's `program` is the
    optimized module as well, because it has the source lines.
    """
    positions = Positions(optimized, buffers)
    broken = BrokenAliases(find_broken_aliases(optimized, positions, is_assigned=is_assigned))
    writes = find_hidden_writes(optimized, effects_of, lambda _, call: broken.find_in_schedule(call))
    unmatched = tuple({id(write.frames): write.frames for write in writes}.values())
    matching = Matching(
        by_call={},
        actual=(),
        missing=(),
        merged_into={},
        unplaced=(),
        loop_depth_differs=frozenset(),
        notes=(),
        unmatched=unmatched,
    )
    matching = assign_unmatched_calls(matching, writes, positions)
    space = LabelSpace(len(writes), max((write.loop_depth for write in writes), default=0))
    concurrency = find_concurrency(
        optimized, buffers, positions, matching.actual, thunks=thunks, command_order=command_order
    )
    actual = Actual((), {}, (), {})
    if writes and optimized.is_scheduled:
        fusions = FusionSummaries(optimized, Places(buffers, positions))
        arguments = optimized, optimized, fusions, writes, space, Carriers({}, {}, {}), effects_of, matching
        actual = Evaluator(*arguments, races=concurrency.races).run_actual(frozenset())
    pair = EvaluatedPair(
        program=optimized,
        optimized=optimized,
        buffers=buffers,
        positions=positions,
        writes=writes,
        matching=matching,
        space=space,
        intended=Intended((), {}),
        actual=actual,
        concurrency=concurrency,
    )
    calls = tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(optimized)])
    times = compute_logical_times(optimized) if writes else {}
    return Context(
        **_list_fields(pair),
        verdicts=judge_alone(pair, output_names),
        vanished=find_vanished(traced_calls, matching, pair.intended, space),
        calls=calls,
        optimized_calls=calls,
        accesses=find_accesses(optimized, positions, writes, matching.actual, times),
    )
