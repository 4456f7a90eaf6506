"""Everything about one schedule that runs without an order: async spans, and command buffers that keep none.

(1) Async operations overlap whatever the command buffers do.
(2) Command buffers in the order of the schedule, XLA's default, add nothing to that.
(3) Where they keep the declared order only, the thunk sequence says which instructions they hold; where that could not be
    told, it is said, and nothing is found.
"""

from dataclasses import dataclass

from ligerdiag.analysis.commands import CommandBuffer, find_command_buffers
from ligerdiag.analysis.memory import ActualWrite
from ligerdiag.analysis.races import Race, find_races
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.command_order import CommandOrder
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.positions import Positions
from ligerdiag.hlo.thunks import ThunkSequence


@dataclass(frozen=True, slots=True, eq=False)
class Concurrency:
    """What was found about the hidden writes of one schedule."""

    races: tuple[Race, ...] = ()
    notes: tuple[str, ...] = ()
    """What was met and is not modelled."""


def find_concurrency(
    module: HloModule,
    buffers: BufferAssignment,
    positions: Positions,
    writes: tuple[ActualWrite, ...],
    *,
    thunks: ThunkSequence | None,
    command_order: CommandOrder,
) -> Concurrency:
    """Races about these writes. thunks: of this module; None where there are none, or none that could be read."""
    if not writes:
        return Concurrency()
    command_buffers: tuple[CommandBuffer, ...] = ()
    notes: tuple[str, ...] = ()
    if command_order is not CommandOrder.SCHEDULE:
        found = find_command_buffers(module, thunks)
        command_buffers, notes = found.buffers, found.notes
    if command_order is CommandOrder.UNKNOWN:
        notes = ("the order that command buffers keep is not known: only what buffers declare is believed", *notes)
    return Concurrency(find_races(writes, buffers, positions, command_buffers), notes)
