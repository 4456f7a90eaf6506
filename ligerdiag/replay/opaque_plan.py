"""Plans replays in which opaque functions replace the custom calls, within bounds of time and memory. Also runs such
replays on the modules of a dump. An opaque function is a stand-in that reads and writes the same buffers as the call
(see `opaque_runs.opaque`).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ligerdiag.effects.access import CallEffects
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.model.findings import OpaqueReplay, ReplayState, mark_undecided
from ligerdiag.replay.estimate import count_allocated_bytes, count_live_bytes, estimate, list_cuts
from ligerdiag.replay.opaque_calls import OpaqueCalls
from ligerdiag.replay.opaque_runs.opaque import compute_elements
from ligerdiag.replay.opaque_runs.opaque_run import count_draws, list_opaque_calls, replay_opaquely
from ligerdiag.replay.opaque_runs.widening import find_scale
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.replay_service import OVERRUN_FACTOR, SLACK_BYTES
from ligerdiag.replay.replay_worker import Bounds, compute_available_bytes, refuse
from ligerdiag.replay.runs.case_run import Programs
from ligerdiag.replay.runs.loop_cuts import NO_CUTS, Cuts

_SLOWER = 2.0
"""How many times longer a program is assumed to take in f64 than in its own types, which are mostly f32; a cautious
guess.
"""
_ELEMENT_SECONDS = 2e-8
"""Seconds per element of a call's operands and outputs."""
_LEAST_SECONDS = 60.0
"""Processor seconds that every replay of a dump may take, however low its estimate."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpaquePlan:
    """A planned replay in which opaque functions replace the custom calls, within bounds of time and memory. An opaque
    function is a stand-in that reads and writes the same buffers as the call.
    """

    programs: Programs
    calls: OpaqueCalls
    seconds: float
    """Estimated processor seconds."""
    bytes: int
    """Estimated bytes."""
    cuts: Cuts = NO_CUTS
    ambiguous: frozenset[str] = frozenset()
    """Names of the outputs whose intended value is unknown or differs from the value in program order."""

    @property
    def limit(self) -> float:
        """Returns the processor seconds that the replay of a dump may take."""
        return max(_LEAST_SECONDS, OVERRUN_FACTOR * self.seconds)

    @property
    def memory(self) -> int:
        """Returns the bytes that the replay of a dump may take."""
        return 2 * self.bytes + SLACK_BYTES


def plan_opaquely(
    programs: Programs,
    find_effects: Callable[[HloInstruction], CallEffects],
    bounds: Bounds,
    ambiguous: Collection[str] = (),
) -> OpaquePlan | OpaqueReplay:
    """Plans a replay in which opaque functions, stand-ins with the same buffers, replace the custom calls. The plan
    cuts loops short if the whole replay exceeds the bounds. If no plan is possible, returns a record with the reason.

    find_effects: returns the effects of a custom call of either module. ambiguous: see `OpaquePlan`.
    """
    program, optimized, devices = programs.program, programs.optimized, programs.signature.devices
    calls = list_opaque_calls(program, optimized, find_effects)
    if calls.not_covered:
        return OpaqueReplay(state=ReplayState.NOT_COVERED, reason=calls.not_covered, kernels=calls.kernels)
    first = None
    try:
        size = find_scale(optimized) * (devices * count_allocated_bytes(programs.buffers) + count_live_bytes(program))
        runs = count_draws(optimized)
        ways = () if bounds.full else list_cuts(program, optimized, _compute_kernel_seconds)
        for cuts in (NO_CUTS, *ways):
            cost = estimate(
                program,
                optimized,
                programs.buffers,
                kernel_seconds=_compute_kernel_seconds,
                devices=devices,
                cores=1,
                cuts=cuts,
            )
            seconds = runs * _SLOWER * cost.seconds
            refused = refuse(seconds, size, bounds, compute_available_bytes())
            if refused is None:
                return OpaquePlan(
                    programs=programs,
                    calls=calls,
                    seconds=seconds,
                    bytes=size,
                    cuts=cuts,
                    ambiguous=frozenset(ambiguous),
                )
            first = first or refused
    except NotCoveredError as error:
        return OpaqueReplay(state=ReplayState.NOT_COVERED, reason=str(error), kernels=calls.kernels)
    assert first is not None
    return OpaqueReplay(
        state=first.state,
        reason=first.reason,
        kernels=calls.kernels,
        estimated_seconds=first.estimated_seconds,
        estimated_bytes=first.estimated_bytes,
    )


def _compute_kernel_seconds(call: HloInstruction) -> float:
    return _ELEMENT_SECONDS * compute_elements(call)


def replay_dump_opaquely(plan: OpaquePlan, arguments: tuple[Array, ...]) -> OpaqueReplay:
    """Replays the modules of a dump with opaque functions in place of the custom calls. Returns the record of the
    replay. If replay does not cover an operation, the record names the operation, and no error is raised.

    arguments: an array for each parameter of the program.
    """
    record = replay_opaquely(plan.programs, arguments, plan.calls, plan.cuts)
    outputs = mark_undecided(record.outputs, plan.ambiguous)
    return replace(record, outputs=outputs, estimated_seconds=plan.seconds, estimated_bytes=plan.bytes)
