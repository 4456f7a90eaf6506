"""How much memory a program needs on one device, by XLA's buffer assignment.

The figures are those of XLA's own memory analysis (xla/pjrt/pjrt_executable.cc), which a compile for a described GPU does
not have in every version: sizes of allocations, summed up.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ligerdiag.hlo.xla_pb2 import BufferAllocationProto, BufferAssignmentProto


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on one device, by what they are for."""

    argument: int
    """Of the entry computation's parameters."""
    output: int
    """That may hold an output, parameters that do among them."""
    temp: int
    """Of the rest, without constants and what belongs to a thread."""
    alias: int
    """Of the parameters that may hold an output."""

    @property
    def peak(self) -> int:
        """All that is reserved, what arguments and outputs share counted once."""
        return self.argument + self.output + self.temp - self.alias


def compute_memory(proto: BufferAssignmentProto) -> Memory:
    """The figures of a whole buffer assignment."""

    def add(counts: Callable[[BufferAllocationProto], bool]) -> int:
        return sum(one.size for one in proto.buffer_allocations if counts(one))

    return Memory(
        argument=add(lambda one: one.is_entry_computation_parameter),
        output=add(lambda one: one.maybe_live_out),
        temp=add(_is_temporary),
        alias=add(lambda one: one.is_entry_computation_parameter and one.maybe_live_out),
    )


def _is_temporary(one: BufferAllocationProto) -> bool:
    kept = one.is_entry_computation_parameter or one.maybe_live_out
    return not kept and not one.is_thread_local and not one.is_constant
