"""How a custom call passes dependences on: the same rule in both programs.

(1) What it returns depends on every operand that it may read.
(2) What it leaves in a hidden-written operand depends on the same, and is FRESH.
(3) A kernel's own reading of an operand before it overwrites it is what is meant to happen, so neither carries that
    write's ORIG on. That of an earlier iteration goes on: what stood there then was another value.
(4) What a kernel of unknown effect returns is FRESH of that unknown write: everything downstream is then unknown.
"""

from dataclasses import dataclass

from ligerdiag.analysis.labels import Labels, LabelSpace
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.access import Access, CallEffects


@dataclass(frozen=True, slots=True)
class CallTransfer:
    """Dependence sets after one custom call."""

    results: Labels
    """Of every output."""
    written: tuple[tuple[int, Labels, Labels], ...]
    """For each hidden-written operand: (operand_number, labels to drop, labels to add)."""


def transfer_call(
    effects: CallEffects, operands: list[Labels], writes: tuple[HiddenWrite, ...], space: LabelSpace
) -> CallTransfer:
    """Dependence sets that a call with these operand sets leaves; `writes` are the call's own hidden writes."""
    read = 0
    for number, labels in enumerate(operands):
        access = effects.operands[number] if number < len(effects.operands) else Access.UNKNOWN
        if access not in (Access.NONE, Access.WRITE):
            read |= labels
    settled = {write.index: space.original(write.index) | space.wrong_about(write.index) for write in writes}
    for labels in settled.values():
        read &= ~labels
    results = read
    for write in writes:
        if write.unknown:
            results |= space.fresh(write.index)
    written = tuple((write.operand, settled[write.index], read | space.fresh(write.index)) for write in writes)
    return CallTransfer(results, written)
