"""Defines ambiguities: values for which the author's intention, or the instruction that computes them, is unknown.

Without the program as written there is only the module that XLA got, folded by MLIR and without tags. An ambiguity is a
mark on values that depend on something unknown; `verdict.verdicts` makes outputs with such a mark unknown. `Reason`
lists the kinds. A value folded into the overwritten one itself, such as `x + 0`, leaves no trace: that is a limit, and
has no mark.

`AmbiguityMarker` finds DERIVATIVE, OTHER_FORM, CONSTANT and RECOMPUTED while the program is evaluated in its order. For
DERIVATIVE it asks which operations want the original. Autodiff saves values of the forward pass (residuals) and reads
them later, in operations named `transpose(…)` that carry the source line of their forward operation. If that operation
ran before the kernel (it defines the overwritten value, or reads it earlier), the derivative needs the value as it was
then. An operation of a custom_vjp's own backward rule is also named `transpose(…)`, but has the source line of the
custom function's call: it reads values in program order, as its author wrote it.
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
    """The kinds of ambiguities."""

    DERIVATIVE = "derivative"
    """The reader may want the saved residual, or an operation such as `* 1` that MLIR removed may have separated it
    from the new value. The same applies to any reader outside of the forward pass whose value autodiff may have
    saved.
    """
    OTHER_FORM = "other form"
    """An operation after the write reads a value of which the overwritten one is a reshape, transpose, cast, slice or
    broadcast, or the reverse. MLIR folds a reshape of a reshape, so the module does not show which of the two the
    author means.
    """
    CONSTANT = "constant"
    """The overwritten value is computed from constants alone. MLIR computes such values itself and merges equal ones:
    an operation that depends on a constant may be meant to depend on the overwritten value.
    """
    AMBIGUOUS = "ambiguous"
    """An instruction of the optimized module may be one of several operations (`provenance`), and would be wrong, or
    carry the original, as one of them.
    """
    UNSURE = "unsure"
    """An instruction of the optimized module is wrong if it is the author's operation, and right if a pass made it."""
    NO_METADATA = "no metadata"
    """Nothing that carries the overwritten value's original is found in the optimized module, by any name."""
    TOO_MANY = "too many"
    """There are too many wrong operations to find out which of them an output depends on."""
    UNIDENTIFIED = "unidentified"
    """An instruction of the optimized module without a name, or with one that cannot be trusted, may carry the original
    (see `tag_trust`), and the output is wrong if it does.
    """
    RECOMPUTED = "recomputed"
    """`jax.checkpoint` recomputes the overwritten value for the backward pass without calling a kernel. JAX may have
    dropped a call whose outputs nothing needs there, although its author means its write; or the call is outside of
    the checkpointed function, and the author means the original.
    """
    MIXED = "mixed"
    """Two merged values, from before and after the write, meet in a loop or conditional whose result is unknown (see
    `verdict.merged_values.find_twin_confluences`)."""
    TWIN_OPERANDS = "twin operands"
    """A kernel gets two merged values, such as two arrays of zeros, and overwrites one of them: the version of the
    other one depends on when it does so.
    """


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """Key of a mark: whether the value sees this hidden write as intended is unknown."""

    write: int
    """HiddenWrite index."""
    reason: Reason
    instruction: int
    """Instruction id: of the reader in the unoptimized module (DERIVATIVE, OTHER_FORM), of the recomputed operation
    (RECOMPUTED), of the instruction in the optimized module (AMBIGUOUS, UNSURE, UNIDENTIFIED); otherwise 0.
    """


type Ambiguities = Mapping[str, frozenset[Ambiguity]]
"""Output name to its ambiguities."""


def is_other_form(instruction: HloInstruction) -> bool:
    """Returns whether the value is its only operand in another form. Constants and scalars do not count as operands."""
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
    """Every one of these operations has a source location."""
    may_save: bool
    """Some of these operations are differentiated, and their derivatives may need the original operand."""


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
    """Looks through the barriers that the as-written translation adds after operations."""
    while is_added_barrier(value):
        value = value.operands[0]
    return value


def find_file_location(module: HloModule, instruction: HloInstruction) -> int:
    """Returns the number of the innermost source location (file, line, column) in the module's table; 0 for none."""
    number = instruction.proto.metadata.stack_frame_id
    frames = module.stack_frames.stack_frames
    return frames[number - 1].file_location_id if 0 < number <= len(frames) else 0


def is_differentiated(instruction: HloInstruction) -> bool:
    """Returns whether the operation belongs to a forward pass that autodiff has traced."""
    return "jvp(" in instruction.op_name and not is_derivative(instruction)


def is_derivative(instruction: HloInstruction) -> bool:
    """Returns whether autodiff transposed this operation."""
    return "transpose(" in instruction.op_name


_AGAIN = "rematted_computation"
"""JAX's name for operations that `jax.checkpoint` recomputes; it is a part of their names."""


def find_recomputed(module: HloModule, writes: tuple[HiddenWrite, ...]) -> Mapping[int, tuple[int, ...]]:
    """Maps ids of operations that recompute an overwritten value to the indices of its hidden writes.

    They have the opcode, shape, name and source line of the overwritten operation. None of them is overwritten itself.
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
    """Returns the operation that defines the overwritten value, in the computation of the call or in one of its
    callers.
    """
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
class AmbiguityMarker:
    """Marks the ambiguities of a canonicalized program; the evaluation reports every result and every hidden write to
    it.
    """

    module: HloModule
    space: LabelSpace
    lines: Mapping[int, ResidualLines]
    """HiddenWrite index to the residuals of the overwritten value."""
    recomputed: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """See `find_recomputed`."""
    overwritten: dict[Storage, list[tuple[int, Storage, Storage]]] = field(
        default_factory=dict[Storage, list[tuple[int, Storage, Storage]]]
    )
    """Origin to (HiddenWrite index, storage, first newer storage) of each of its overwritten forms."""
    to_constants: set[int] = field(default_factory=set[int])
    """Indices of the hidden writes that overwrite a value computed from constants alone."""
    _origin: dict[Storage, Storage] = field(default_factory=dict[Storage, Storage])
    """Storage to the storage of which it is another form, through every such form."""
    _constant: set[Storage] = field(default_factory=set[Storage])

    def follow(self, instruction: HloInstruction, operands: list[StoredValue], value: StoredValue) -> None:
        """Records a result: whether it comes from constants alone, and of which storage it is another form."""
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
        """Records a hidden write. newer: the first storage that is made after it."""
        if storage in self._constant:
            self.to_constants.add(write)
        self.overwritten.setdefault(self._origin.get(storage, storage), []).append((write, storage, newer))

    def find(self, reader: HloInstruction, operands: list[StoredValue]) -> Labels:
        """Returns the marks of this reader's ambiguities."""
        labels = 0
        origin, overwritten = self._origin, self.overwritten
        for value in operands:
            for storage in (value,) if isinstance(value, int) else list_leaves(value):
                if origin.get(storage, storage) in overwritten:
                    labels |= self.find_of_storage(reader, storage)
        return labels

    def find_of_storage(self, reader: HloInstruction, storage: Storage) -> Labels:
        """Returns the marks of this reader's ambiguities about this storage."""
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
        """Returns the marks of an operation that recomputes an overwritten value."""
        found = self.recomputed.get(instruction.id, ())
        return unite(self.space.mark(Ambiguity(write, Reason.RECOMPUTED, instruction.id)) for write in found)

    def mark_constants(self, writes: Iterable[int]) -> Labels:
        """Returns one mark for each of these hidden writes, for a value read from constants that they may overwrite."""
        return unite(self.space.mark(Ambiguity(write, Reason.CONSTANT, 0)) for write in writes)

    def _may_want_original(self, reader: HloInstruction, lines: ResidualLines) -> bool:
        """Returns whether a reader of the overwritten value may mean a residual, or a value that MLIR folded into it."""
        if lines.may_save and not is_differentiated(reader):
            return True
        location = find_file_location(self.module, reader)
        return is_derivative(reader) and (not location or location in lines.locations or not lines.is_complete)
