"""What can be said without the program: no order of the author's, no value that he meant, only the schedule.

  (1) An output that depends neither on what a kernel wrote behind XLA's back, nor on any entry parameter from which the
      overwritten value was computed, is fresh: there is nothing of the value in it, overwritten or not, copied or computed
      once more. What the kernel returns is not free of it: XLA may have merged two calls, of which the second was to see
      what the first had written.
  (2) Every other output is unknown: whether its author wants to see the write is not to be told.
  (3) Where the overwritten value is computed from no parameter, anyone may have computed it once more: all are unknown.
  (4) An output with a part that races with a kernel (see `races`) is unknown.
Without a schedule there is no order either, and every output is unknown as soon as there is a hidden write.
"""

from collections.abc import Mapping

from ligerdiag.analysis.accesses import find_accesses
from ligerdiag.analysis.actual import Actual
from ligerdiag.analysis.backward_slice import BackwardSlices
from ligerdiag.analysis.carriers import Carriers
from ligerdiag.analysis.comparison import Cause, OutputComparison
from ligerdiag.analysis.concurrency import find_concurrency
from ligerdiag.analysis.context import Context
from ligerdiag.analysis.fusion_summaries import FusionSummaries
from ligerdiag.analysis.labels import Labels, LabelSpace
from ligerdiag.analysis.matching import Matching, adopt_foreign
from ligerdiag.analysis.order import compute_logical_times
from ligerdiag.analysis.places import Places
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.races import RacedRead, mark_races
from ligerdiag.analysis.schedule_order import ScheduleEvaluation
from ligerdiag.analysis.vanished import TracedCall, find_vanished
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite, find_hidden_writes, iterate_kernel_calls
from ligerdiag.findings import Verdict
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.command_order import CommandOrder
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.positions import Positions
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.hlo.thunks import ThunkSequence


def compute_context_without_program(
    *,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects_of: EffectsOf,
    output_names: tuple[str, ...],
    traced_calls: tuple[TracedCall, ...] = (),
    thunks: ThunkSequence | None = None,
    command_order: CommandOrder = CommandOrder.SCHEDULE,
) -> Context:
    """The context of an optimized module alone; its `program` is that module, for the sake of source lines."""
    writes = find_hidden_writes(optimized, effects_of)
    positions = Positions(optimized, buffers)
    foreign = tuple({id(write.frames): write.frames for write in writes}.values())
    matching = adopt_foreign(Matching({}, (), (), {}, (), frozenset(), (), frozenset(), foreign), writes, positions)
    space = LabelSpace(len(writes), max((write.loop_depth for write in writes), default=0))
    actual = Actual((), {}, (), {})
    concurrency = find_concurrency(
        optimized, buffers, positions, matching.actual, thunks=thunks, command_order=command_order
    )
    unknown: Mapping[str, set[int]] = {name: {write.index for write in writes} for name in output_names}
    if writes and optimized.is_scheduled:
        unknown = _find_unknown(optimized, output_names, writes)
        in_flight, raced = mark_races(concurrency.races, space)
        actual = ScheduleEvaluation(
            module=optimized,
            fusions=FusionSummaries(optimized, Places(buffers, positions)),
            space=space,
            carriers=Carriers({}, {}, {}),
            effects_of=effects_of,
            writes=matching.by_call,
            actual_writes=matching.actual,
            wanted=frozenset(),
            marked=raced,
            raced=in_flight,
        ).run()
    unplaced = {write.index for write in matching.unplaced}
    outputs = {
        name: _judge(
            actual.outputs[number] if number < len(actual.outputs) else 0, writes, space, unknown[name] | unplaced
        )
        for number, name in enumerate(output_names)
    }
    times = compute_logical_times(optimized) if writes else {}
    return Context(
        program=optimized,
        optimized=optimized,
        buffers=buffers,
        positions=positions,
        writes=writes,
        matching=matching,
        intended=Intended((), {}),
        actual=actual,
        outputs=outputs,
        stale=(),
        clobbered=(),
        latent=(),
        vanished=find_vanished(traced_calls, matching, Intended((), {}), space),
        calls=tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(optimized)]),
        optimized_calls=tuple([(call, effects_of(call)) for _, call in iterate_kernel_calls(optimized)]),
        accesses=find_accesses(optimized, positions, writes, matching.actual, times),
        concurrency=concurrency,
    )


def _find_unknown(module: HloModule, names: tuple[str, ...], writes: tuple[HiddenWrite, ...]) -> Mapping[str, set[int]]:
    """Output name to indices of the writes for which it has something in common with the overwritten value, (1) and (3)."""
    slices = BackwardSlices(module, [(write.call, write.operand) for write in writes])
    overwritten = {w.index: slices.find_parameters(w.call.operands[w.operand]) for w in writes}
    root = module.entry.root
    found: dict[str, set[int]] = {}
    for name, index in zip(names, iterate_leaves(root.shape), strict=True):
        own = slices.find_parameters(root, index)
        found[name] = {write for write, numbers in overwritten.items() if not numbers or own & numbers}
    return found


def _judge(labels: Labels, writes: tuple[HiddenWrite, ...], space: LabelSpace, unknown: set[int]) -> OutputComparison:
    raced = [key for key in space.marks_in(labels) if isinstance(key, RacedRead)]
    touched = unknown | {key.write for key in raced}
    causes = tuple(
        [
            Cause(write.index, Verdict.UNKNOWN, raced=tuple([key for key in raced if key.write == write.index]))
            for write in writes
            if write.index in touched or labels & space.all_fresh(write.index)
        ]
    )
    return OutputComparison(Verdict.UNKNOWN if causes else Verdict.FRESH, causes)
