"""The context of a schedule without its program; `verdict.schedule_alone` says what can be said of it."""

from ligerdiag.analysis.accesses import find_accesses
from ligerdiag.analysis.actual import Actual
from ligerdiag.analysis.carriers import Carriers
from ligerdiag.analysis.concurrency import find_concurrency
from ligerdiag.analysis.context import Context, create_context
from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.fusion_summaries import FusionSummaries
from ligerdiag.analysis.labels import LabelSpace
from ligerdiag.analysis.matching import Matching, adopt_foreign
from ligerdiag.analysis.order import compute_logical_times
from ligerdiag.analysis.places import Places
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.races import mark_races
from ligerdiag.analysis.schedule_order import ScheduleEvaluation
from ligerdiag.analysis.vanished import TracedCall, find_vanished
from ligerdiag.analysis.verdict.verdicts import judge_alone
from ligerdiag.analysis.writes import EffectsOf, find_hidden_writes, iterate_kernel_calls
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.command_order import CommandOrder
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.positions import Positions
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
    if writes and optimized.is_scheduled:
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
    return create_context(
        pair,
        verdicts=judge_alone(pair, output_names),
        vanished=find_vanished(traced_calls, matching, pair.intended, space),
        calls=calls,
        optimized_calls=calls,
        accesses=find_accesses(optimized, positions, writes, matching.actual, times),
    )
