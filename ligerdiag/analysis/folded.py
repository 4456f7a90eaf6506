"""What cannot be told of a program that MLIR has folded, as marks on what hangs on it (see `doubts`).

Followed while the program is evaluated in its order:
  (1) what is computed from constants alone: MLIR may have computed it itself, and constants come first;
  (2) what is another form of what, through every such form: a reader of one may have been given the other;
  (3) which forms were overwritten, and what is newer than that: a reader of an older one may mean either.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ligerdiag.analysis.doubts import CONSTANTS, FORMS, Doubt, Reason, is_other_form
from ligerdiag.analysis.labels import Labels, LabelSpace
from ligerdiag.analysis.residuals import ResidualLines, find_file_location, is_derivative, is_differentiated
from ligerdiag.analysis.values import Storage, Value, list_leaves
from ligerdiag.hlo.module import HloInstruction, HloModule


@dataclass(slots=True, eq=False)
class Folded:
    """Changed as the evaluation goes on: it is told of every result and of every hidden write."""

    module: HloModule
    space: LabelSpace
    lines: Mapping[int, ResidualLines]
    """HiddenWrite index to what is known of the residuals of what it overwrites."""
    overwritten: dict[Storage, list[tuple[int, Storage, Storage]]] = field(
        default_factory=dict[Storage, list[tuple[int, Storage, Storage]]]
    )
    """Origin to (HiddenWrite index, storage, first storage that is newer) of its forms that were overwritten."""
    to_constants: set[int] = field(default_factory=set[int])
    """Indices of the hidden writes that overwrite what is computed from constants alone."""
    _origin: dict[Storage, Storage] = field(default_factory=dict[Storage, Storage])
    """Storage to the storage that it is another form of, through every such form."""
    _constant: set[Storage] = field(default_factory=set[Storage])

    def follow(self, instruction: HloInstruction, operands: list[Value], value: Value) -> None:
        """Takes note of a result, (1) and (2)."""
        constant = self._constant
        for operand in operands:
            if operand not in constant if isinstance(operand, int) else not constant.issuperset(list_leaves(operand)):
                break
        else:
            if operands or instruction.opcode in CONSTANTS:
                constant.update(list_leaves(value))
        if instruction.opcode in FORMS and isinstance(value, int) and is_other_form(instruction):
            of = operands[0]
            if isinstance(of, int):
                self._origin[value] = self._origin.get(of, of)

    def overwrite(self, write: int, storage: Storage, newer: Storage) -> None:
        """Takes note of a hidden write, (3). newer: the first storage that is made after it."""
        if storage in self._constant:
            self.to_constants.add(write)
        self.overwritten.setdefault(self._origin.get(storage, storage), []).append((write, storage, newer))

    def find(self, reader: HloInstruction, operands: list[Value]) -> Labels:
        """Marks for what cannot be told about this reader."""
        labels = 0
        origin, overwritten = self._origin, self.overwritten
        for value in operands:
            for storage in (value,) if isinstance(value, int) else list_leaves(value):
                if origin.get(storage, storage) in overwritten:
                    labels |= self.find_of_storage(reader, storage)
        return labels

    def find_of_storage(self, reader: HloInstruction, storage: Storage) -> Labels:
        """Marks for what cannot be told about this reader of this storage."""
        labels = 0
        for write, other, newer in self.overwritten.get(self._origin.get(storage, storage), ()):
            if storage >= newer:
                continue  # made after the write, from what it says
            if other != storage:
                labels |= self.space.mark(Doubt(write, Reason.OTHER_FORM, reader.id))
            elif self._may_want_original(reader, self.lines[write]):
                labels |= self.space.mark(Doubt(write, Reason.DERIVATIVE, reader.id))
        return labels

    def mark_constants(self, writes: Iterable[int]) -> Labels:
        """Marks for what comes from constants that these hidden writes may overwrite."""
        labels = 0
        for write in writes:
            labels |= self.space.mark(Doubt(write, Reason.CONSTANT, 0))
        return labels

    def _may_want_original(self, reader: HloInstruction, lines: ResidualLines) -> bool:
        """Whether a reader of the overwritten value may read a residual, or be given one that was folded into it."""
        if lines.may_save and not is_differentiated(reader):
            return True
        location = find_file_location(self.module, reader)
        return is_derivative(reader) and (not location or location in lines.locations or not lines.is_complete)
