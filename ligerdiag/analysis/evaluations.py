"""Either program's evaluation, as often as it is needed, and with marks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.actual import Actual
from ligerdiag.analysis.carriers import Carriers
from ligerdiag.analysis.fusion_summaries import FusionSummaries
from ligerdiag.analysis.labels import Labels, LabelSpace
from ligerdiag.analysis.matching import Matching
from ligerdiag.analysis.program_order import Intended, compute_intended
from ligerdiag.analysis.races import Race, join_marks, mark_races
from ligerdiag.analysis.retag import Descent, Retagged
from ligerdiag.analysis.schedule_order import ScheduleEvaluation
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.tags import TagPath


@dataclass(frozen=True, slots=True, eq=False)
class Evaluations:
    """Evaluates either program, as often as needed."""

    program: HloModule
    optimized: HloModule
    fusions: FusionSummaries
    """Of the optimized module."""
    writes: tuple[HiddenWrite, ...]
    """Two that XLA makes one (`Matching.same`) have one index."""
    space: LabelSpace
    carriers: Carriers
    effects_of: EffectsOf
    matching: Matching
    retagged: Retagged | None = None
    """Where the tags come from when they are not the compile worker's."""
    folded: bool = False
    """The program is not as written, but as MLIR has folded it."""
    races: tuple[Race, ...] = ()
    carried: Mapping[int, Labels] = field(default_factory=dict[int, Labels])
    """Instruction id in the optimized module to the ORIG labels that start there."""

    def is_own(self, path: TagPath, instruction: HloInstruction) -> bool:
        """Whether an instruction of the optimized module surely is the author's operation or a clone of it."""
        if self.retagged is None:
            return is_named_after(path, instruction)
        return self.retagged.descents.get(instruction.id) is Descent.OWN

    def with_marks(
        self, operations: Mapping[TagPath, Labels], instructions: Mapping[int, Labels]
    ) -> tuple[Intended, Actual]:
        """Both programs, with marks on what these operations and instructions compute."""
        return self.run_intended(operations), self.run_actual(frozenset(), instructions, sights=False)

    def run_intended(self, marked: Mapping[TagPath, Labels] | None = None) -> Intended:
        """The program as written; with marks, for the sake of its outputs alone."""
        return compute_intended(
            self.program,
            self.writes,
            self.carriers,
            self.effects_of,
            self.space,
            marked=marked,
            folded=self.folded,
            records=marked is None,
        )

    def run_actual(
        self, wanted: frozenset[TagPath], marked: Mapping[int, Labels] | None = None, *, sights: bool = True
    ) -> Actual:
        """The schedule; `wanted`: operations to look out for even where they depend on no write; sights: for any."""
        in_flight, others = mark_races(self.races, self.space)
        return ScheduleEvaluation(
            module=self.optimized,
            fusions=self.fusions,
            space=self.space,
            carriers=self.carriers,
            effects_of=self.effects_of,
            writes=self.matching.by_call,
            actual_writes=self.matching.actual,
            wanted=wanted,
            marked=join_marks(marked or {}, others),
            raced=in_flight,
            carried=self.carried,
            sights=sights,
        ).run()


def is_named_after(path: TagPath, instruction: HloInstruction) -> bool:
    """Whether the instruction's name holds the operation's tag.

    XLA names an instruction after its op_name when it comes from the program, so the tag is in the name of the operation
    itself and of its clones, and not in that of an instruction that a pass has made.
    """
    sought, name = f"ld{path[-1]}", instruction.name
    at = name.find(sought)
    while at >= 0:
        if not name[at + len(sought) : at + len(sought) + 1].isdecimal():
            return True
        at = name.find(sought, at + 1)
    return False
