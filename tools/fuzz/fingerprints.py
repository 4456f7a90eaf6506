"""Finds out by numbers which value of the program each instruction of the schedule computes, and judges claims about it.

Both modules run in f64, with opaque functions in place of their kernels (`ligerdiag.replay.opaque_runs`), and no kernel
overwrites an operand. XLA knows of no such write either, so whatever it does to the program, an instruction computes the
same value as before, up to rounding in f64 and up to constants that XLA folds in the original types. The numbers are
generic: each module runs on several draws of the arguments, and with other functions each time. So two values that are
equal in all of these runs are one value, whatever names XLA's passes gave them.

A *claim* says that an instruction of the schedule computes an operation of the program. Where it comes from does not
matter here: `tools.fuzz.provenance_claims` lists those that the analysis makes. `judge_claims` compares the instruction
with the operation:

    same     equal element by element, in row-major order, so that a reshape or a cast changes nothing
    moved    the same elements in another order, as after a transposition
    part     each element is one of the operation's: a slice, or a shard
    whole    each element of the operation is among them: a concatenation, a joined product
    near     equal up to a rounding of the original types
    some     one of these on some devices only, such as a slice that only the owner of the bytes can take
    other    none of these: the claim is refuted
    open     a value that is not finite, or an operation that the program did not run: nothing is known

In a loop an instruction is compared visit by visit; where XLA unrolled the loop or hoisted the instruction, each of its
visits with the most similar visit of the operation.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from ligerdiag.hlo.dataflow import search
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.replay.opaque_calls import OpaqueCalls
from ligerdiag.replay.opaque_runs.opaque import OpaqueRunner
from ligerdiag.replay.opaque_runs.wide_memory import WideScheduleRunner
from ligerdiag.replay.opaque_runs.widening import widen_array, widen_module
from ligerdiag.replay.ops.scope import Array, NotCoveredError, Value
from ligerdiag.replay.runs.case_run import Programs, split_arguments
from ligerdiag.replay.runs.program import run_program

_EXACT = 1e-9
"""Largest difference of elements that are equal, relative to the largest element; rounding in f64 stays below it."""
_SETS = 1e-6
"""The same for elements that are compared in another order, where XLA may have folded a constant in f32."""
_NEAR = 0.02
"""The same for a value that XLA rounds in the original types, at worst in eight bits."""
_MOST_BYTES = 1 << 30
_NOT_VALUES = frozenset({"parameter", "tuple", "get-tuple-element", "bitcast", "constant", "opt-barrier"})
"""Opcodes of instructions that only name a value, or compute none from the program's."""
_CALLS = frozenset({"while", "conditional", "call", "async-done", "async-update"})
"""Opcodes of instructions whose value is that of another computation."""


class Relation(StrEnum):
    """How the value of an instruction is related to that of an operation; a later one is weaker."""

    SAME = "same"
    MOVED = "moved"
    PART = "part"
    WHOLE = "whole"
    NEAR = "near"
    SOME = "some"
    OPEN = "open"
    OTHER = "other"


_ORDER = {relation: number for number, relation in enumerate(Relation)}


@dataclass(frozen=True, eq=False)
class Observed:
    """One array of an instruction's result, as several runs computed it."""

    instruction: HloInstruction
    path: TagPath
    """In the program, the tag path of the operation, or that of `name_argument`; () for an instruction without a tag,
    and in the schedule.
    """
    index: ShapeIndex
    """The place of the array in the instruction's result, which may be a tuple."""
    runs: tuple[tuple[tuple[Array, ...], ...], ...]
    """In each run, for each device, the arrays in the order in which the instruction ran. They are flat f64."""

    @cached_property
    def first(self) -> Array:
        return self.runs[0][0][0]

    @cached_property
    def is_trivial(self) -> bool:
        """Returns whether an equal value need not be this one: it depends on no argument, or it is an integer, or one
        number that was broadcast.
        """
        if self.first.size > 1 and self.first.max() == self.first.min():
            return True
        arrays = [run[0][0] for run in self.runs]
        if any(not array.size or not np.isfinite(array).all() for array in arrays):
            return True
        if all(np.array_equal(array, np.rint(array)) for array in arrays):
            return True
        return any(arrays[0].shape == other.shape and np.allclose(arrays[0], other) for other in arrays[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprints:
    """The values of the program and those of the schedule."""

    program: tuple[Observed, ...]
    schedule: tuple[Observed, ...]

    def find_paths(self) -> Mapping[TagPath, tuple[Observed, ...]]:
        """Maps a tag path to the values of its operation; several instructions may make up one operation."""
        found: defaultdict[TagPath, list[Observed]] = defaultdict(list)
        for one in self.program:
            if one.path:
                found[one.path].append(one)
        return {path: tuple(values) for path, values in found.items()}


def name_argument(number: int) -> TagPath:
    """Returns a tag path for an argument of the program, which has no tag."""
    return (-1 - number,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The statement that an instruction of the schedule computes an operation of the program."""

    instruction: int
    """Id of the instruction."""
    path: TagPath
    """Tag path of the operation; for an argument of the program, that of `name_argument`."""
    evidence: str
    """Why the claim is made."""
    index: ShapeIndex | None = None
    """The array of the instruction's result that is meant; None for the whole result."""
    operation_index: ShapeIndex = ()
    """The array of the operation's result that `index` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    """A claim with its answer; or, with the evidence `none`, an equality that nobody claims."""

    instruction: str
    """Name of the instruction."""
    opcode: str
    path: TagPath
    """Tag path of the claimed operation; () if there is no claim."""
    operation: str
    """Name of the operation in the program."""
    operation_opcode: str
    evidence: str
    relation: Relation
    is_trivial: bool
    """Whether the instruction's value depends on no argument, or is an integer or one number."""
    equals: tuple[TagPath, ...] = ()
    """Tag paths of the operations with the value of the instruction, unless that is trivial."""


@dataclass(slots=True, eq=False)
class _Entry:
    """A value that a run computed."""

    instruction: HloInstruction
    home: int
    """Id of the computation that ran it; that of the call if the computation was called."""
    device: int
    value: Value
    calls: TagPath = ()
    """Tags of the calls around it."""


@dataclass(eq=False)
class _Recorder:
    """Keeps every value of a run."""

    module: HloModule
    entries: list[_Entry] = field(default_factory=list[_Entry])
    bytes: int = 0
    _inside: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])

    def record(self, instruction: HloInstruction, value: Value, device: int) -> None:
        """Keeps a value; a call of the program adds its tag to the values inside of it, which come before the call's own.
        Values of reducers are left out, and those of a `-start`, whose operands may already be overwritten. Raises
        NotCoveredError if there are too many values.
        """
        home = self.module.homes.get(instruction.id)
        if home is None or home.id not in self._observed or instruction.opcode.endswith("-start"):
            return
        if instruction.opcode == "call" and not self.module.is_scheduled and not device:
            self._enter(instruction, home.id)
        copied = _copy(value)
        self.bytes += _count_bytes(copied)
        if self.bytes > _MOST_BYTES:
            raise NotCoveredError(f"more than {_MOST_BYTES >> 20} MiB of values")
        self.entries.append(_Entry(instruction, home.id, device, copied))

    def _enter(self, call: HloInstruction, home: int) -> None:
        inside = self._find_inside(call.called_computations[0])
        tag = self.module.find_tag_path(call)
        for entry in reversed(self.entries):
            if entry.home not in inside:
                break
            entry.home, entry.calls = home, (*tag, *entry.calls)

    def _find_inside(self, callee: int) -> frozenset[int]:
        if callee not in self._inside:
            self._inside[callee] = frozenset(search([callee], self._list_called))
        return self._inside[callee]

    def _list_called(self, home: int) -> list[int]:
        return [one for i in self.module.computations[home].instructions for one in i.called_computations]

    @cached_property
    def _observed(self) -> frozenset[int]:
        """Ids of the computations that run once for each visit, unlike reducers and comparators."""
        opcodes = _CALLS | {"fusion", "async-start"}
        called = {c for i in self.module.instructions if i.opcode in opcodes for c in i.called_computations}
        return frozenset({*called, self.module.entry.id})


type _Key = tuple[TagPath, int, ShapeIndex]


def record_fingerprints(programs: Programs, calls: OpaqueCalls, draws: Sequence[Sequence[Array]]) -> Fingerprints:
    """Runs both modules once on each draw of the arguments. Raises NotCoveredError.

    draws: sets of whole arrays in the program's own types, one for each input in order.
    """
    if calls.not_covered:
        raise NotCoveredError(calls.not_covered)
    program, optimized = widen_module(programs.program), widen_module(programs.optimized)
    runs = ([_Recorder(program) for _ in draws], [_Recorder(optimized) for _ in draws])
    with np.errstate(all="ignore"):
        for number, draw in enumerate(draws):
            arguments = [widen_array(one) for one in draw]
            salt, signed = f"fingerprint {number}", number % 2 == 1
            run_program(
                program,
                arguments,
                OpaqueRunner(calls={one.id: one for one in calls.program}, isolated=True, salt=salt, signed=signed),
                isolated=True,
                devices=programs.signature.devices,
                on_value=runs[0][number].record,
            )
            WideScheduleRunner(
                module=optimized,
                buffers=programs.buffers,
                kernels=OpaqueRunner(
                    calls={one.id: one for one in calls.optimized}, isolated=True, salt=salt, signed=signed
                ),
                devices=programs.signature.devices,
                original=programs.optimized,
                on_value=runs[1][number].record,
            ).execute(split_arguments(programs.signature, arguments))
    return Fingerprints(_gather(program, runs[0]), _gather(optimized, runs[1]))


def _gather(module: HloModule, recorders: Sequence[_Recorder]) -> tuple[Observed, ...]:
    """Returns the values that all runs computed."""
    instructions = {one.id: one for one in module.instructions}
    arguments = {one.id: name_argument(number) for number, one in enumerate(module.entry.parameters)}
    found: list[dict[_Key, list[list[Array]]]] = []
    for recorder in recorders:
        arrays: dict[_Key, list[list[Array]]] = {}
        for entry in recorder.entries:
            for index, array in _list_leaves(entry.value):
                devices = arrays.setdefault((entry.calls, entry.instruction.id, index), [])
                while len(devices) <= entry.device:
                    devices.append([])
                devices[entry.device].append(_flatten(array))
        found.append(arrays)
    observed: list[Observed] = []
    for key in found[0]:
        runs = [one[key] for one in found if key in one]
        if len(runs) == len(found) and all(device for run in runs for device in run):
            calls, number, index = key
            own = () if module.is_scheduled else arguments.get(number) or module.tags.get(number, ())
            observed.append(
                Observed(
                    instructions[number],
                    (*calls, *own) if own else (),
                    index,
                    tuple([tuple([tuple(visits) for visits in run]) for run in runs]),
                )
            )
    return tuple(observed)


def judge_claims(fingerprints: Fingerprints, claims: Sequence[Claim]) -> list[JudgedClaim]:
    """Returns each claim about a value that ran, with its answer, and then each array of the schedule that equals an
    operation without a claim that says so.
    """
    paths, equal = fingerprints.find_paths(), _Equal(fingerprints.program)
    values: defaultdict[int, list[Observed]] = defaultdict(list)
    for one in fingerprints.schedule:
        values[one.instruction.id].append(one)
    judged: list[JudgedClaim] = []
    claimed: defaultdict[tuple[int, ShapeIndex | None], set[TagPath]] = defaultdict(set)
    for claim in claims:
        claimed[claim.instruction, claim.index].add(claim.path)
        seen = [one for one in values.get(claim.instruction, ()) if claim.index in (None, one.index)]
        if not seen or (claim.index is None and seen[0].instruction.opcode in _CALLS):
            continue
        relation, operation = _judge(claim, seen, paths.get(claim.path, ()))
        judged.append(
            JudgedClaim(
                instruction=seen[0].instruction.name,
                opcode=seen[0].instruction.opcode,
                path=claim.path,
                operation=operation.instruction.name if operation is not None else "",
                operation_opcode=operation.instruction.opcode if operation is not None else "",
                evidence=claim.evidence,
                relation=relation,
                is_trivial=all(one.is_trivial for one in seen),
                equals=equal.find(seen[0]) if len(seen) == 1 else (),
            )
        )
    for value in fingerprints.schedule:
        one = value.instruction
        said = claimed[one.id, None] | claimed[one.id, value.index]
        equals = () if one.opcode in _NOT_VALUES | _CALLS else equal.find(value)
        if equals and said.isdisjoint(equals):
            judged.append(
                JudgedClaim(
                    instruction=one.name,
                    opcode=one.opcode,
                    path=(),
                    operation="",
                    operation_opcode="",
                    evidence="another" if said else "none",
                    relation=Relation.SAME,
                    is_trivial=False,
                    equals=equals,
                )
            )
    return judged


def count_equal(fingerprints: Fingerprints) -> int:
    """Returns the number of arrays of the schedule that equal an operation or an argument, apart from those that only name
    another array.
    """
    equal = _Equal(fingerprints.program)
    values = (one for one in fingerprints.schedule if one.instruction.opcode not in _NOT_VALUES | _CALLS)
    return sum(bool(equal.find(one)) for one in values)


def _judge(claim: Claim, seen: Sequence[Observed], meant: Sequence[Observed]) -> tuple[Relation, Observed | None]:
    """Returns the relation of an instruction to an operation, and the instruction of the program that is meant."""
    if claim.index is not None:
        meant = [one for one in meant if one.index == claim.operation_index]
    if len(seen) == 1:
        found = [(compare_values(seen[0], one), one) for one in meant]
        return min(found, key=lambda pair: _ORDER[pair[0]], default=(Relation.OPEN, None))
    other = {one.index: one for one in meant}
    if not meant or other.keys() != {one.index for one in seen}:
        return Relation.OPEN, meant[0] if meant else None
    return max([compare_values(one, other[one.index]) for one in seen], key=_ORDER.__getitem__), meant[0]


def compare_values(seen: Observed, meant: Observed) -> Relation:
    """Returns the relation of an instruction's value to an operation's: the weakest of all runs, devices and visits."""
    devices = range(len(seen.runs[0]))
    found = [_compare_on(device, seen, meant) for device in devices]
    weakest = max(found, key=_ORDER.__getitem__)
    return Relation.SOME if weakest is Relation.OTHER and len(set(found)) > 1 else weakest


def _compare_on(device: int, seen: Observed, meant: Observed) -> Relation:
    found: list[Relation] = []
    for run, other in zip(seen.runs, meant.runs, strict=True):
        visits, operations = run[device], other[min(device, len(other) - 1)]
        if len(visits) == len(operations):
            found += [compare_arrays(one, two) for one, two in zip(visits, operations, strict=True)]
        else:
            found += [_find_best(one, operations) for one in visits]
        if Relation.OTHER in found:
            return Relation.OTHER
    return max(found, key=_ORDER.__getitem__)


def _find_best(array: Array, others: Sequence[Array]) -> Relation:
    best = Relation.OTHER
    for other in others:
        best = min(best, compare_arrays(array, other), key=_ORDER.__getitem__)
        if best is Relation.SAME:
            break
    return best


def compare_arrays(seen: Array, meant: Array) -> Relation:
    """Returns the relation of one flat array to another."""
    if not seen.size or not meant.size:
        return Relation.OPEN
    if not np.isfinite(seen).all() or not np.isfinite(meant).all():
        return Relation.SAME if np.array_equal(seen, meant, equal_nan=True) else Relation.OPEN
    scale = float(np.abs(meant).max()) or float(np.abs(seen).max()) or 1.0
    if seen.size == meant.size:
        distance = float(np.abs(seen - meant).max()) / scale
        if distance <= _EXACT:
            return Relation.SAME
        if float(np.abs(np.sort(seen) - np.sort(meant)).max()) <= _SETS * scale:
            return Relation.NEAR if distance <= _SETS else Relation.MOVED
        return Relation.NEAR if distance <= _NEAR else Relation.OTHER
    small, large = (seen, meant) if seen.size < meant.size else (meant, seen)
    if _is_among(small, np.sort(large), _SETS * scale):
        return Relation.PART if small is seen else Relation.WHOLE
    return Relation.OTHER


def _is_among(values: Array, listed: Array, distance: float) -> bool:
    """Returns whether each of the values is within the distance of one of those in a sorted array."""
    after = np.searchsorted(listed, values).clip(0, listed.size - 1)
    before = (after - 1).clip(0)
    nearest = np.minimum(np.abs(values - listed[after]), np.abs(values - listed[before]))
    return bool((nearest <= distance).all())


class _Equal:
    """Finds the operations of the program with a given value."""

    def __init__(self, program: Sequence[Observed]) -> None:
        self._by_size: defaultdict[int, list[Observed]] = defaultdict(list)
        for one in program:
            if one.path and not one.is_trivial:
                self._by_size[one.first.size].append(one)
        self._known: dict[int, tuple[TagPath, ...]] = {}

    def find(self, value: Observed) -> tuple[TagPath, ...]:
        """Returns the tag paths of the operations with the elements of the value, in the same or another order."""
        if id(value) not in self._known:
            found = () if value.is_trivial else tuple(self._iterate(value))
            self._known[id(value)] = tuple(dict.fromkeys(found))
        return self._known[id(value)]

    def _iterate(self, value: Observed) -> Iterator[TagPath]:
        mean = float(value.first.mean())
        scale = float(np.abs(value.first).max())
        for one in self._by_size.get(value.first.size, ()):
            # a hoisted or unrolled value may equal another visit, so means decide only for values that ran once
            if len(one.runs[0][0]) == 1 and abs(float(one.first.mean()) - mean) > _SETS * scale:
                continue
            if compare_values(value, one) in (Relation.SAME, Relation.MOVED):
                yield one.path


def _copy(value: Value) -> Value:
    return tuple([_copy(child) for child in value]) if isinstance(value, tuple) else np.array(value)


def _count_bytes(value: Value) -> int:
    return sum(map(_count_bytes, value)) if isinstance(value, tuple) else value.nbytes


def _list_leaves(value: Value, index: ShapeIndex = ()) -> Iterator[tuple[ShapeIndex, Array]]:
    if isinstance(value, tuple):
        for number, child in enumerate(value):
            yield from _list_leaves(child, (*index, number))
    else:
        yield index, value


def _flatten(array: Array) -> Array:
    """Returns the elements in row-major order as f64; of a complex number, a combination of its parts."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        return flat.real + 0.6180339887498949 * flat.imag
    return flat.astype(np.float64)
