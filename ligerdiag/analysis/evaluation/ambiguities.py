"""Defines ambiguities: values for which it is unknown what the author means, or which instruction computes them.

Without the program as written, only the module that XLA got is known, folded by MLIR and without tags. An ambiguity is
a mark (an extra bit in dependence sets) on the values that depend on something unknown; `verdict.verdicts` makes
outputs with such a mark unknown. `Reason` lists the kinds of ambiguities. A value that MLIR folded into the overwritten
one itself, such as `x + 0`, leaves no trace: that is a limit, and has no mark.

A program that came as StableHLO has tags and nothing is folded, but JAX traced it elsewhere: it lacks the snapshots that
say which version a derivative means (see `compile.lowering.intent`). DERIVATIVE, RECOMPUTED and NO_NAMES apply to it.

`AmbiguityMarker` finds DERIVATIVE, NO_NAMES, OTHER_FORM, CONSTANT and RECOMPUTED while the program is evaluated in its
order. For DERIVATIVE it finds the operations that need the value from before the write. Autodiff saves values of the
forward pass (residuals) and reads them later, in operations named `transpose(…)` that carry the source line of their forward
operation. If that operation ran before the kernel (it defines the overwritten value, or reads it earlier), the
derivative needs the value as it was then. An operation of a custom_vjp's own backward rule is also named
`transpose(…)`, but has the source line of the custom function's call: it reads values in program order, as its author
wrote it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.module import HloInstruction, HloModule, is_added_barrier, strip_tags
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple

type Storage = int
"""Number of an array's storage in an evaluation of the program: the index of the array's dependence set."""

type StoredValue = Storage | tuple["StoredValue", ...]
"""The storage of an array, or a tuple of such values."""


def list_leaves(value: StoredValue) -> list[Storage]:
    """Returns the storage of each array in a value, in order: `[4, 7]` for the tuple `(4, (7,))`.

    A storage is a number for the memory of one array; it increases in the order of the evaluation. A value is a storage, or
    a tuple of values.
    """
    if isinstance(value, int):
        return [value]
    return [leaf for child in value for leaf in list_leaves(child)]


FORMS = having(Trait.OTHER_FORM)
CONSTANTS = having(Trait.FROM_NOTHING)


class Reason(StrEnum):
    """The reasons why it may be unknown whether a value sees a hidden write as the author intends."""

    DERIVATIVE = "derivative"
    """The reader is a derivative, or another operation outside of the forward pass that may read a value saved by
    autodiff. It may mean the residual, the value that autodiff saved before the write. Or it may mean the value after
    the write, by way of an operation such as `* 1` that MLIR has removed.
    """
    OTHER_FORM = "other form"
    """An operation after the write reads a value that is a reshape, transpose, cast, slice or broadcast of the
    overwritten value, or from which the overwritten value was made in such a way. MLIR folds a reshape of a reshape, so
    the module does not show which of the two values the author means.
    """
    CONSTANT = "constant"
    """The overwritten value is computed from constants alone. MLIR computes such values itself and merges equal ones:
    an operation that depends on a constant may be meant to depend on the overwritten value.
    """
    AMBIGUOUS = "ambiguous"
    """An instruction of the optimized module may compute one of several operations (see `provenance`). For at least one
    of these operations the instruction would be wrong, or hold the value from before the write; for another it would be
    right.
    """
    UNSURE = "unsure"
    """An instruction of the optimized module is wrong if it is the author's operation, and right if a pass of XLA made
    it; its name fits both.
    """
    NO_METADATA = "no metadata"
    """None of the operations that hold the overwritten value from before the write is found again in the optimized
    module, where instructions are identified by their metadata.
    """
    TOO_MANY = "too many"
    """There are too many wrong operations to find out which of them an output depends on."""
    UNIDENTIFIED = "unidentified"
    """An instruction of the optimized module without a name, or with a name that cannot be trusted (see `tag_trust`),
    may hold the value from before the write, and the output is wrong if it does.
    """
    NO_NAMES = "no names"
    """JAX lowered the program before ligerdiag got it, and its operations have no names: any operation that reads the
    overwritten value may be a derivative, and mean the value from before the write.
    """
    RECOMPUTED = "recomputed"
    """`jax.checkpoint` recomputes the overwritten value for the backward pass without calling a kernel. Either the
    author means the kernel's write there, and JAX has dropped a call because nothing needs its outputs; or the call is
    outside of the checkpointed function, and the author means the value from before the write.
    """
    MIXED = "mixed"
    """XLA merged two values; the author means one of them from before the write and the other from after it. The two
    values meet in a loop or conditional, whose result is then unknown (see
    `verdict.merged_values`).
    """
    TWIN_OPERANDS = "twin operands"
    """A kernel gets two values that XLA merged, such as two arrays of zeros, and overwrites one of them. Whether it
    reads old or new contents through the other operand depends on whether it reads them before or after its write.
    """


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """A doubt whether a reader sees a hidden write as the author intends. It is the key of a mark (an extra bit in
    dependence sets) on the values that depend on the doubt.
    """

    write: int
    """Index of the hidden write."""
    reason: Reason
    instruction: int
    """Id of an instruction, depending on `reason`: the reader in the unoptimized module (DERIVATIVE, NO_NAMES,
    OTHER_FORM), the recomputed operation there (RECOMPUTED), or the instruction in the optimized module whose match is
    uncertain (AMBIGUOUS, UNSURE, UNIDENTIFIED). 0 for any other reason, or if no single instruction is known.
    """


type Ambiguities = Mapping[str, frozenset[Ambiguity]]
"""Maps the name of an output to its ambiguities, the unknown facts on which its verdict depends."""


def is_other_form(instruction: HloInstruction) -> bool:
    """Returns whether the instruction only changes the form of its one operand. Examples are a reshape, a cast, a slice,
    a broadcast and a negation. Returns False if the operand is a constant (see `Reason.CONSTANT`), a scalar or a tuple.
    """
    if instruction.opcode not in FORMS or len(instruction.operands) != 1:
        return False
    operand = instruction.operands[0]
    return operand.opcode not in CONSTANTS and not is_tuple(operand.shape) and bool(operand.shape.dimensions)


_RESULT_NOT_SAVED = having(Trait.RESULT_NOT_SAVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualLines:
    """The source lines of the forward operations that use a kernel's operand before the kernel overwrites it. Derivatives
    of these operations may need the old value.
    """

    locations: frozenset[int]
    """Numbers of the source locations of these operations, as `find_file_location` returns them."""
    is_complete: bool
    """Whether every one of these operations has a source location."""
    may_save: bool
    """Whether at least one of these operations is differentiated and its derivative may need the operand's old value.
    """


def compute_residual_lines(writes: tuple[HiddenWrite, ...]) -> Mapping[int, ResidualLines]:
    """Returns the `ResidualLines` of each hidden write by its index: the source lines of forward operations that use the
    operand before the write.
    """
    found: dict[int, ResidualLines] = {}
    for write in writes:
        module = write.module
        forward: list[HloInstruction] = []
        value = write.call.operands[write.operand]
        for frame in reversed(write.frames):
            users = frame.computation.users[value.id]
            tag = module.find_tag_path(frame.instruction)[-1:]
            forward += [skip_barrier(value), *[u for u in users if module.find_tag_path(u)[-1:] < tag]]
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


def skip_barrier(value: HloInstruction) -> HloInstruction:
    """Returns the operand of an optimization barrier that ligerdiag added to the program; any other value unchanged."""
    while is_added_barrier(value):
        value = value.operands[0]
    return value


def find_file_location(module: HloModule, instruction: HloInstruction) -> int:
    """Returns the number of the instruction's innermost source location (file, line, column) in the module's table of
    locations. Returns 0 if the instruction has none.
    """
    number = instruction.proto.metadata.stack_frame_id
    frames = module.stack_frames.stack_frames
    return frames[number - 1].file_location_id if 0 < number <= len(frames) else 0


def is_differentiated(instruction: HloInstruction) -> bool:
    """Returns whether the operation belongs to a forward pass under autodiff: its name then has `jvp(`."""
    return "jvp(" in instruction.op_name and not is_derivative(instruction)


def has_names(module: HloModule) -> bool:
    """Returns whether any operation has a name that JAX gave it, apart from ligerdiag's tags. StableHLO that was printed
    without locations has no names.
    """
    return any(
        strip_tags(one.op_name).strip("/") and not is_added_barrier(one)
        for one in module.instructions
        if one.opcode != "parameter"
    )


def is_derivative(instruction: HloInstruction) -> bool:
    """Returns whether autodiff made the operation by transposing a forward operation: its name then has `transpose(`."""
    return "transpose(" in instruction.op_name


_AGAIN = "rematted_computation"
"""The part that JAX adds to the names of operations that `jax.checkpoint` recomputes."""


def find_recomputed(module: HloModule, writes: tuple[HiddenWrite, ...]) -> Mapping[int, tuple[int, ...]]:
    """Returns the operations that recompute an overwritten value. Maps the id of each to the indices of the hidden writes
    that overwrite the value.

    A recomputing operation has the opcode, shape, name and source line of the operation that defines the overwritten value.
    Its result is not overwritten.
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
    name = one.op_name.rpartition("/")[2].partition("#")[0]  # without the tag that ligerdiag adds
    return one.opcode, one.shape.SerializeToString(), name, find_file_location(module, one)


@dataclass(slots=True, eq=False)
class AmbiguityMarker:
    """Finds the ambiguities of a program without snapshots, and makes a mark (an extra bit in dependence sets) for each.
    The evaluation of the program must pass every result and every hidden write to this object. MLIR's canonicalizer may
    have changed the program.
    """

    module: HloModule
    space: LabelSpace
    lines: Mapping[int, ResidualLines]
    """Maps the index of a hidden write to the source lines of the operations that may have saved the overwritten value
    as a residual.
    """
    canonicalized: bool = True
    """Whether MLIR's canonicalizer has changed the program, so that a reader may mean a value that MLIR folded."""
    has_names: bool = True
    """Whether the operations have names (see `has_names`)."""
    recomputed: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """Maps the id of an operation that recomputes an overwritten value to the indices of the value's hidden writes (see
    `find_recomputed`).
    """
    overwritten: dict[Storage, list[tuple[int, Storage, Storage]]] = field(
        default_factory=dict[Storage, list[tuple[int, Storage, Storage]]]
    )
    """Maps a storage X (the place of one array) to the overwritten storages that hold the value of X in some shape or
    element type, each as (index of the hidden write, overwritten storage, first storage made after the write). X is the
    first storage in their chain of reshapes and casts (see `_origin`). Storages are numbered in the order in which they
    are made: one with a smaller number than the first storage made after the write is older than the write.
    """
    to_constants: set[int] = field(default_factory=set[int])
    """Indices of the hidden writes that overwrite a value computed from constants alone."""
    _origin: dict[Storage, Storage] = field(default_factory=dict[Storage, Storage])
    """Maps a storage that was made from another one by a chain of reshapes, casts or similar operations to the first
    storage in this chain.
    """
    _constant: set[Storage] = field(default_factory=set[Storage])

    def follow(self, instruction: HloInstruction, operands: list[StoredValue], value: StoredValue) -> None:
        """Records whether an operation's result (`value`) is computed from constants alone. If the operation only reshapes
        or casts its operand, also records the storage from which the result was made.
        """
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
        """Records a hidden write. write: index of the write. storage: the overwritten storage. newer: the first storage
        made after the write. The module shows from which values `newer` and all later storages are computed, so they get
        no mark for the write.
        """
        if storage in self._constant:
            self.to_constants.add(write)
        self.overwritten.setdefault(self._origin.get(storage, storage), []).append((write, storage, newer))

    def find(self, reader: HloInstruction, operands: list[StoredValue]) -> Labels:
        """Returns the marks (extra bits in dependence sets) of a reader. It gets one for each hidden write of an operand if
        it is unknown whether the reader means the contents from before or from after the write.
        """
        labels = 0
        origin, overwritten = self._origin, self.overwritten
        for value in operands:
            for storage in (value,) if isinstance(value, int) else list_leaves(value):
                if origin.get(storage, storage) in overwritten:
                    labels |= self.find_of_storage(reader, storage)
        return labels

    def find_of_storage(self, reader: HloInstruction, storage: Storage) -> Labels:
        """Returns the marks (extra bits in dependence sets) that a reader gets for one array, `storage`. There is one for
        each hidden write if it is unknown whether the reader means the contents from before or from after the write.
        """
        labels = 0
        for write, other, newer in self.overwritten.get(self._origin.get(storage, storage), ()):
            if storage >= newer:
                continue  # made after the write: the module says from which values
            if other != storage:
                labels |= self.space.mark(Ambiguity(write, Reason.OTHER_FORM, reader.id))
            elif not self.has_names:
                if reader is not self.module.entry.root:
                    labels |= self.space.mark(Ambiguity(write, Reason.NO_NAMES, reader.id))
            elif self._may_want_original(reader, self.lines[write]):
                labels |= self.space.mark(Ambiguity(write, Reason.DERIVATIVE, reader.id))
        return labels

    def mark_recomputed(self, instruction: HloInstruction) -> Labels:
        """Returns the RECOMPUTED marks of an instruction. They are 0 if it recomputes no overwritten value."""
        found = self.recomputed.get(instruction.id, ())
        return unite(self.space.mark(Ambiguity(write, Reason.RECOMPUTED, instruction.id)) for write in found)

    def mark_constants(self, writes: Iterable[int]) -> Labels:
        """Returns the CONSTANT marks of hidden writes that overwrite a value computed from constants alone. Every constant
        of the program gets these marks, because MLIR may have merged it with the overwritten value.
        """
        return unite(self.space.mark(Ambiguity(write, Reason.CONSTANT, 0)) for write in writes)

    def _may_want_original(self, reader: HloInstruction, lines: ResidualLines) -> bool:
        """Returns whether a reader of the overwritten value may mean the value that autodiff saved before the write, or
        a value that MLIR folded into the overwritten one.

        lines: the source lines of the operations that may have saved the value.
        """
        if lines.may_save and (self._is_saved(reader) or self._is_outside_of_forward_pass(reader)):
            return True
        location = find_file_location(self.module, reader)
        return is_derivative(reader) and (not location or location in lines.locations or not lines.is_complete)

    def _is_outside_of_forward_pass(self, reader: HloInstruction) -> bool:
        """Returns whether a reader of a residual lies outside of the forward pass. If MLIR folded nothing, such a reader is
        an operation of a derivative, or the end of a loop's body or of a branch that returns the residual.
        """
        if self.canonicalized:
            return not is_differentiated(reader)
        if not reader.op_name or reader.opcode == "tuple":
            return reader is not self.module.entry.root
        return is_derivative(reader) or _AGAIN in reader.op_name

    def _is_saved(self, reader: HloInstruction) -> bool:
        """Returns whether the reader puts the value into a stack, as a loop of the forward pass does at its end with a
        residual that autodiff saved earlier.
        """
        computation = next((one for one in self.module.computations.values() if reader.id in one.users), None)
        found, left = False, [reader] if computation is not None else []
        while left and computation is not None:
            one = left.pop()
            if one.opcode == "dynamic-update-slice":
                found = True
            elif one.opcode in FORMS or is_added_barrier(one):
                left.extend(computation.users[one.id])
        return found
