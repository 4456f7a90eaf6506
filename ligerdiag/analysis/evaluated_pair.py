"""Both programs of one compilation, each evaluated: all that a verdict is decided from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ligerdiag.analysis.actual import Actual
from ligerdiag.analysis.concurrency import Concurrency
from ligerdiag.analysis.labels import LabelSpace
from ligerdiag.analysis.matching import Matching
from ligerdiag.analysis.order import compute_logical_times
from ligerdiag.analysis.program_order import Intended
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.positions import Positions


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluatedPair:
    """The program in its own order, the schedule in its own, and the dependence sets of both."""

    program: HloModule
    """The unoptimized module; the optimized one where there is no other."""
    optimized: HloModule
    buffers: BufferAssignment
    positions: Positions
    """Where the optimized module's values stand in `buffers`."""
    writes: tuple[HiddenWrite, ...]
    matching: Matching
    space: LabelSpace
    """What the bits of all these sets stand for."""
    intended: Intended
    """The evaluation in program order; empty where there is no program."""
    actual: Actual
    """The evaluation in schedule order."""
    concurrency: Concurrency = field(default_factory=Concurrency)
    """Reads that run while a kernel overwrites what they read."""

    @cached_property
    def logical_times(self) -> Mapping[int, int]:
        """Instruction id in the optimized module to LogicalTime."""
        return compute_logical_times(self.optimized)

    @property
    def has_program(self) -> bool:
        """Whether anything says what the author means."""
        return bool(self.intended.outputs)

    @property
    def undecided(self) -> frozenset[int]:
        """Indices of the hidden writes of which it is not known which memory they hit."""
        return frozenset(write.index for write in self.matching.unplaced) | self.matching.ambiguous

    def optimized_call(self, write: HiddenWrite) -> HloInstruction | None:
        """The custom call in the optimized module that performs the write."""
        return next((w.call for w in self.actual.writes if w.write == write.index), None)
