"""Losses of the optimized module: tags that are not found again, and kernel calls that it no longer holds.

  (1) JAX drops a call without outputs before XLA ever sees it, and one whose outputs are unused.
  (2) XLA drops a custom call without users and without side effects.
Either matters when the call was made for its effect:
  (3) it has no outputs at all, or
  (4) it overwrites an operand that none of its outputs stands for, and something reads an operand of it later. A call of
      unknown effect counts, and is reported as unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ligerdiag.analysis.correspondence.write_correspondence import Matching
from ligerdiag.analysis.evaluation.labels import LabelSpace
from ligerdiag.analysis.evaluation.program_order import Intended
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.hlo.module import HloModule
from ligerdiag.model.findings import SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class TagCoverage:
    """Counts of the program's tagged operations, and of those that are found again in the optimized module."""

    tags: int = 0
    found: int = 0


def compute_tag_coverage(program: HloModule, optimized: HloModule) -> TagCoverage:
    """Counts by the operation's own tag, whatever calls lead to it."""
    written, seen = ({path[-1] for path in module.tags.values()} for module in (program, optimized))
    return TagCoverage(tags=len(written), found=len(written & seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedKernel:
    """A kernel call in the traced jaxpr."""

    kernel: str
    outputs: int
    operands: int
    source: SourceLine | None
    in_program: bool
    """The module that JAX lowered still holds it."""
    operand_used_later: bool
    """A later equation reads one of its operands."""
    site: SourceLine | None = None
    """The line that makes the call, which for a backward function is not `source`."""
    tags: tuple[int, ...] = ()
    """Tags of the operations that stand for it."""
    hidden: tuple[Access, ...] = ()
    """Of a missing call: its accesses to the operands that it may overwrite and no output stands for."""


class DroppedBy(Enum):
    """The tool that dropped the call."""

    JAX = "JAX"
    XLA = "XLA"


@dataclass(frozen=True, slots=True, kw_only=True)
class VanishedCall:
    """A call made for its effect that is not run."""

    kernel: str
    dropped_by: DroppedBy
    outputs: int
    source: SourceLine | None
    unknown: bool = False
    """It is not known whether it overwrites anything."""
    write: int | None = None
    """HiddenWrite index, when XLA dropped it."""


def find_hidden_accesses(effects: CallEffects | None, declared: tuple[int, ...]) -> tuple[Access, ...]:
    """Returns `TracedKernel.hidden`. effects: None if they are not known. declared: numbers of operands, see `LoneCall`."""
    if effects is None:
        return (Access.UNKNOWN,)
    return tuple(access for number, access in enumerate(effects.operands) if access.writes and number not in declared)


def find_vanished(
    traced: tuple[TracedKernel, ...], matching: Matching, intended: Intended, space: LabelSpace
) -> tuple[VanishedCall, ...]:
    """Finds calls that JAX dropped, (1), and hidden writes that some output depends on and XLA dropped, (2)."""
    found = [
        VanishedCall(
            kernel=call.kernel,
            dropped_by=DroppedBy.JAX,
            outputs=call.outputs,
            source=call.source,
            unknown=call.outputs > 0 and all(access is Access.UNKNOWN for access in call.hidden),
        )
        for call in traced
        if not call.in_program and (call.outputs == 0 or (call.hidden and call.operand_used_later))
    ]
    known = {call.kernel for call in found}
    for write in matching.missing:
        if write.kernel not in known and any(labels & space.all_fresh(write.index) for labels in intended.outputs):
            found.append(
                VanishedCall(kernel=write.kernel, dropped_by=DroppedBy.XLA, outputs=1, source=None, write=write.index)
            )
    return tuple(found)


def find_sites(calls: Sequence[TracedKernel]) -> Mapping[int, SourceLine]:
    """Maps each tag to the line that makes the kernel call; leaves out a tag that calls of several lines claim."""
    found: dict[int, set[SourceLine | None]] = {}
    for call in calls:
        for tag in call.tags:
            found.setdefault(tag, set()).add(call.site)
    return {tag: site for tag, sites in found.items() if len(sites) == 1 and (site := next(iter(sites))) is not None}
