"""Ambiguities: values of which it cannot be told what the author meant, or which instruction computes them.

Without the program as written there is only what XLA got: folded by MLIR, and without tags. An ambiguity is a mark on the
values that depend on what is not known (`verdict.verdicts` makes outputs that have one unknown):
  (1) DERIVATIVE: an operation that autodiff derived from the value before the write reads the overwritten value. It may
      want the original, as a residual; or what it read was the new value times one, or the like, which MLIR has folded away.
      The same of any reader outside of the forward pass, where that may have saved the value: what it reads may be a
      derivative, the original times one, that has been folded away.
  (2) OTHER_FORM: an operation after the write reads a value that the overwritten one is a reshape, transpose, cast, slice or
      broadcast of, or the other way round. MLIR turns a reshape of a reshape into the value itself: whether the author
      meant what was overwritten or what it was made from is no longer to be seen.
  (3) CONSTANT: the overwritten value is computed from constants alone. MLIR computes such values itself and makes one of
      those that are equal: whatever depends on a constant may be meant to depend on the overwritten one.
  (4) AMBIGUOUS: an instruction of the optimized module may be one of several operations (`provenance`), and would be wrong,
      or carry the original, as one of them.
  (5) UNSURE: an instruction of the optimized module is wrong if it is the author's operation, and right if a pass made it.
  (6) NO_METADATA: nothing that carries the overwritten value's original is found again in the optimized module, by any name.
  (7) TOO_MANY: so many operations are wrong that which of them an output depends on was not asked to the end.
  (8) UNIDENTIFIED: an instruction of the optimized module whose name is missing, or cannot be believed, may carry the
      original (see `belief`), and the output is wrong if it does.
  (9) RECOMPUTED: `jax.checkpoint` computes the overwritten value again for the backward pass, and no kernel is called there:
      JAX drops a call whose outputs nothing needs the second time, and its author means what it would have written; or the
      call is outside of what is computed again, and the author means the original.
 (10) MIXED: two values that are one to XLA meet in a loop or conditional, one from before and one from behind the write, and
      what became of it is not known (see `first_divergence.find_twin_confluences`).
 (11) TWIN_OPERANDS: a kernel gets two values that are one to XLA, such as two arrays of zeros, and overwrites one of them:
      what it reads of the other one, and leaves in it, hangs on when it does so.
A value folded into the very one that the kernel overwrites, `x + 0` say, leaves no trace: that is a limit, and not marked.

(1) asks which operations want the original. Autodiff saves values of the forward pass (residuals) and reads them later, in
operations named `transpose(…)` that carry the source line of their forward operation. When that ran before the kernel (it
defines the overwritten value, or reads it earlier), the derivative needs the value as it was then. An operation of a
custom_vjp's own backward rule is named `transpose(…)` too, but carries the line of the custom function's call: what it reads
is what its author wrote, in program order. `Folded` finds (1) to (3), and (9), while the program is evaluated in its order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.module import HloInstruction, HloModule, is_added_barrier
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple

type Storage = int
"""Index of the dependence set of one array."""

type StoredValue = Storage | tuple["StoredValue", ...]
"""An array's storage, or a tuple of values."""


def list_leaves(value: StoredValue) -> list[Storage]:
    """Lists the storage of each array of the value, in order."""
    if isinstance(value, int):
        return [value]
    return [leaf for child in value for leaf in list_leaves(child)]


FORMS = having(Trait.OTHER_FORM)
CONSTANTS = having(Trait.FROM_NOTHING)


class Reason(StrEnum):
    """The kinds of ambiguities, (1) to (11)."""

    DERIVATIVE = "derivative"
    OTHER_FORM = "other form"
    CONSTANT = "constant"
    AMBIGUOUS = "ambiguous"
    UNSURE = "unsure"
    NO_METADATA = "no metadata"
    TOO_MANY = "too many"
    UNIDENTIFIED = "unidentified"
    RECOMPUTED = "recomputed"
    MIXED = "mixed"
    TWIN_OPERANDS = "twin operands"


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """Key of a mark: whether the value sees this hidden write as it is meant to cannot be told."""

    write: int
    """HiddenWrite index."""
    reason: Reason
    instruction: int
    """Instruction id: of the reader in the unoptimized module, (1) and (2), or of what is computed again, (9); in the
    optimized one, (4), (5), (8); else 0."""


type Ambiguities = Mapping[str, frozenset[Ambiguity]]
"""Output name to what cannot be told about it."""


def is_other_form(instruction: HloInstruction) -> bool:
    """Whether it is its only operand in another form, (2). Constants and scalars do not count as operands."""
    if instruction.opcode not in FORMS or len(instruction.operands) != 1:
        return False
    operand = instruction.operands[0]
    return operand.opcode not in CONSTANTS and not is_tuple(operand.shape) and bool(operand.shape.dimensions)


_RESULT_NOT_SAVED = having(Trait.RESULT_NOT_SAVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualLines:
    """Source lines of the forward operations that used the operand of one hidden write before it."""

    locations: frozenset[int]
    """Numbers of file locations."""
    is_complete: bool
    """Every one of them has a location."""
    may_save: bool
    """Some of them are differentiated, and their derivatives may need the operand as it was."""


def compute_residual_lines(writes: tuple[HiddenWrite, ...]) -> Mapping[int, ResidualLines]:
    """Maps each HiddenWrite index to the forward operations that used its operand before the write."""
    found: dict[int, ResidualLines] = {}
    for write in writes:
        module = write.module
        forward: list[HloInstruction] = []
        value = write.call.operands[write.operand]
        for frame in reversed(write.frames):
            users = frame.computation.users[value.id]
            tag = module.find_tag_path(frame.instruction)[-1:]
            forward += [_skip_barrier(value), *[u for u in users if module.find_tag_path(u)[-1:] < tag]]
            if value.opcode != "parameter" or len(write.frames) == 1:
                break
            outer = write.frames[write.frames.index(frame) - 1].instruction
            if outer.opcode != "call":
                break
            value = outer.operands[value.proto.parameter_number]
        forward = [one for one in forward if not is_derivative(one)]
        lines = {find_file_location(module, one) for one in forward}
        found[write.index] = ResidualLines(
            locations=frozenset(lines - {0}),
            is_complete=0 not in lines,
            may_save=any(
                is_differentiated(one) and (value in one.operands or one.opcode not in _RESULT_NOT_SAVED)
                for one in forward
            ),
        )
    return found


def _skip_barrier(value: HloInstruction) -> HloInstruction:
    """Looks through the barriers that the translation as written puts behind operations."""
    while is_added_barrier(value):
        value = value.operands[0]
    return value


def find_file_location(module: HloModule, instruction: HloInstruction) -> int:
    """Returns the number of the innermost source location (file, line, column) in the module's table; 0 for none."""
    number = instruction.proto.metadata.stack_frame_id
    frames = module.stack_frames.stack_frames
    return frames[number - 1].file_location_id if 0 < number <= len(frames) else 0


def is_differentiated(instruction: HloInstruction) -> bool:
    """Whether the operation belongs to a forward pass that autodiff went through."""
    return "jvp(" in instruction.op_name and not is_derivative(instruction)


def is_derivative(instruction: HloInstruction) -> bool:
    """Whether autodiff transposed this operation."""
    return "transpose(" in instruction.op_name


_AGAIN = "rematted_computation"
"""JAX's name for what `jax.checkpoint` computes again, a part of the operations' names."""


def find_recomputed(module: HloModule, writes: tuple[HiddenWrite, ...]) -> Mapping[int, tuple[int, ...]]:
    """Maps ids of operations that compute again what hidden writes overwrite to the indices of these writes, (9).

    They have the opcode, shape, name and source line of what is overwritten. None is overwritten itself.
    """
    again = [one for one in module.instructions if _AGAIN in one.op_name] if writes else []
    if not again:
        return {}
    made = [(write.index, _find_definition(write)) for write in writes]
    overwritten = {one.id for _, one in made}
    forms: dict[tuple[object, ...], set[int]] = {}
    for write, one in made:
        forms.setdefault(_describe_operation(module, one), set()).add(write)
    found = {one.id: forms.get(_describe_operation(module, one)) for one in again if one.id not in overwritten}
    return {number: tuple(sorted(writes)) for number, writes in found.items() if writes}


def _find_definition(write: HiddenWrite) -> HloInstruction:
    """Returns the operation that computes what is overwritten, in the computation of the call or in one that calls it."""
    value = write.call.operands[write.operand]
    for frame in reversed(write.frames[:-1]):
        if value.opcode != "parameter" or frame.instruction.opcode != "call":
            break
        value = frame.instruction.operands[value.proto.parameter_number]
    return value


def _describe_operation(module: HloModule, one: HloInstruction) -> tuple[object, ...]:
    name = one.op_name.rpartition("/")[2].partition("#")[0]  # without a tag of ours
    return one.opcode, one.shape.SerializeToString(), name, find_file_location(module, one)


@dataclass(slots=True, eq=False)
class Folded:
    """Marks (1) to (3), and (9); the evaluation tells it of every result and of every hidden write."""

    module: HloModule
    space: LabelSpace
    lines: Mapping[int, ResidualLines]
    """HiddenWrite index to what is known of the residuals of what it overwrites."""
    recomputed: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """See `find_recomputed`."""
    overwritten: dict[Storage, list[tuple[int, Storage, Storage]]] = field(
        default_factory=dict[Storage, list[tuple[int, Storage, Storage]]]
    )
    """Origin to (HiddenWrite index, storage, first storage that is newer) of its forms that were overwritten."""
    to_constants: set[int] = field(default_factory=set[int])
    """Indices of the hidden writes that overwrite what is computed from constants alone."""
    _origin: dict[Storage, Storage] = field(default_factory=dict[Storage, Storage])
    """Storage to the storage that it is another form of, through every such form."""
    _constant: set[Storage] = field(default_factory=set[Storage])

    def follow(self, instruction: HloInstruction, operands: list[StoredValue], value: StoredValue) -> None:
        """Takes note of a result: whether it comes from constants alone, and what it is another form of."""
        constant = self._constant
        if operands or instruction.opcode in CONSTANTS:
            is_constant = all(
                one in constant if isinstance(one, int) else constant.issuperset(list_leaves(one)) for one in operands
            )
            if is_constant:
                constant.update(list_leaves(value))
        if instruction.opcode in FORMS and isinstance(value, int) and is_other_form(instruction):
            of = operands[0]
            if isinstance(of, int):
                self._origin[value] = self._origin.get(of, of)

    def overwrite(self, write: int, storage: Storage, newer: Storage) -> None:
        """Takes note of a hidden write. newer: the first storage that is made after it."""
        if storage in self._constant:
            self.to_constants.add(write)
        self.overwritten.setdefault(self._origin.get(storage, storage), []).append((write, storage, newer))

    def find(self, reader: HloInstruction, operands: list[StoredValue]) -> Labels:
        """Returns the marks for what cannot be told about this reader."""
        labels = 0
        origin, overwritten = self._origin, self.overwritten
        for value in operands:
            for storage in (value,) if isinstance(value, int) else list_leaves(value):
                if origin.get(storage, storage) in overwritten:
                    labels |= self.find_of_storage(reader, storage)
        return labels

    def find_of_storage(self, reader: HloInstruction, storage: Storage) -> Labels:
        """Returns the marks for what cannot be told about this reader of this storage."""
        labels = 0
        for write, other, newer in self.overwritten.get(self._origin.get(storage, storage), ()):
            if storage >= newer:
                continue  # made after the write, from what it says
            if other != storage:
                labels |= self.space.mark(Ambiguity(write, Reason.OTHER_FORM, reader.id))
            elif self._may_want_original(reader, self.lines[write]):
                labels |= self.space.mark(Ambiguity(write, Reason.DERIVATIVE, reader.id))
        return labels

    def mark_recomputed(self, instruction: HloInstruction) -> Labels:
        """Returns the marks of an operation that computes an overwritten value again."""
        found = self.recomputed.get(instruction.id, ())
        return unite(self.space.mark(Ambiguity(write, Reason.RECOMPUTED, instruction.id)) for write in found)

    def mark_constants(self, writes: Iterable[int]) -> Labels:
        """Marks for what comes from constants that these hidden writes may overwrite."""
        return unite(self.space.mark(Ambiguity(write, Reason.CONSTANT, 0)) for write in writes)

    def _may_want_original(self, reader: HloInstruction, lines: ResidualLines) -> bool:
        """Whether a reader of the overwritten value may read a residual, or be given one that was folded into it."""
        if lines.may_save and not is_differentiated(reader):
            return True
        location = find_file_location(self.module, reader)
        return is_derivative(reader) and (not location or location in lines.locations or not lines.is_complete)
