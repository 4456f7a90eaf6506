"""Runs one kernel call by itself on a device, several times with different contents, and records which buffers it reads and
writes.

The program has the call and nothing else, so XLA passes the program's parameters to it:

- An operand that the call does not declare to write is the parameter's own buffer. The call has
  written the bytes that differ from the bytes put there.
- An operand that an output aliases is copied by XLA, because its parameter is not donated. The output has the copy's
  contents after the call.
- Each output lies in the buffer of a donated parameter, the canary. Elements that still have the canary's bytes, with
  two canaries that differ in every byte, are not written.

XLA could add copies. `Wiring` reads the compiled module, and a buffer behind an unexpected copy counts as untested.

A run with other contents of one operand shows whether the call reads this operand: it does if any other buffer changes. Such
a change shows nothing if the buffer also differs between two runs with the same contents. Floats get other values. Integers
may be indices, so they only exchange places with each other, or become smaller by one, and stay in range.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.sharding import SingleDeviceSharding

from ligerdiag.device.guarded_buffers import Bytes, make_pattern, place_array, view_bytes
from ligerdiag.errors import CompileError
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.parse import parse_hlo_module
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.opcheck_report import CallRun, OperandRun, OutputRun, Seen

type Mask = np.ndarray[Any, np.dtype[np.bool_]]

_FLOATS = frozenset(name for name in dir(ml_dtypes) if name.startswith(("bfloat", "float")))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneKernel:
    """A kernel call, made into a function of the call's operands."""

    function: Callable[..., tuple[Any, ...]]
    """A function that takes the operands, and returns the call's outputs; the new contents of each Ref come last."""
    operands: tuple[jax.ShapeDtypeStruct, ...]
    results: tuple[jax.ShapeDtypeStruct, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Says how the compiled program passes its parameters to the kernel call, and the call's outputs to the program's
    results.
    """

    operands: tuple[int | None, ...]
    """For each operand of the call, the number of the program's argument that the operand is; None if the operand is no
    argument.
    """
    is_own: tuple[bool, ...]
    """For each operand of the call, whether the operand lies in the argument's own buffer, rather than in a copy of it."""
    outputs: tuple[int | None, ...]
    """For each output of the call, the number of the program's result that the output is; None if the output is no result.
    """
    is_direct: tuple[bool, ...]
    """For each output of the call, whether the result lies in the output's own buffer, rather than in a copy of it."""
    aliases: dict[int, int]
    """Maps the number of an operand to the number of the output that aliases it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The bytes that one run left."""

    contents: tuple[Bytes, ...]
    """For each argument of the program, its bytes before the run."""
    canaries: tuple[Bytes, ...]
    """For each result, the bytes of its canary."""
    after: tuple[Bytes, ...]
    """For each argument of the program, the bytes of the argument's own buffer after the run."""
    results: tuple[Bytes, ...]
    in_canary: tuple[bool, ...]
    """For each result, whether it lies in the buffer of a canary."""
    outside: tuple[int, ...]
    """For each argument, the number of changed guard bytes."""
    is_guarded: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRuns:
    """A kernel call that is compiled for a device as a program of its own, with the contents of its operands."""

    kernel: LoneKernel
    device: Any
    contents: tuple[Bytes, ...]
    compiled: Any
    wiring: Wiring

    def observe(self, *, perturbs_integers: bool) -> CallRun:
        """Runs the call several times, with different contents, and returns the observations. Does not catch the errors
        of JAX and of the device.

        perturbs_integers: whether operands whose elements are integers get other contents in some runs, too.
        """
        self._run(self.contents)  # an autotuning launcher tries its configurations on the real buffers
        base = self._run(self.contents)
        again = self._run(self.contents)
        other = self._run(self.contents, canary=1)
        walls = self._run(self.contents, guard=1)
        perturbed: dict[int, _Outcome] = {}
        for number, spec in enumerate(self.kernel.operands):
            contents = _perturb(self.contents[number], spec.dtype, integers=perturbs_integers)
            if contents is not None:
                changed = (*self.contents[:number], contents, *self.contents[number + 1 :])
                perturbed[number] = self._run(changed)
        outcomes = (base, again, other, walls, *perturbed.values())
        unsteady = self._find_differing(base, again)
        left = [self._find_left(output, base, other) for output in range(len(self.wiring.outputs))]
        return CallRun(
            runs=1 + len(outcomes),
            operands=tuple(
                self._describe_operand(operand, outcomes, perturbed, unsteady)
                for operand in range(len(self.wiring.operands))
            ),
            outputs=tuple(self._describe_output(output, found) for output, found in enumerate(left)),
            unsteady=tuple(sorted(unsteady)),
            reads_outside=bool(self._find_differing(base, walls) - unsteady),
            reads_old_outputs=bool(self._find_differing(base, other, left) - unsteady),
        )

    def _run(self, contents: Sequence[Bytes], *, canary: int = 0, guard: int = 0) -> _Outcome:
        library: Any = jax
        canaries = tuple(_make_canary(spec, canary) for spec in self.kernel.results)
        donated = [
            # the copy is the device's own: memory of NumPy's, which JAX on a CPU may use, cannot be donated
            library.numpy.copy(library.device_put(one.view(spec.dtype).reshape(spec.shape), self.device))
            for one, spec in zip(canaries, self.kernel.results, strict=True)
        ]
        library.block_until_ready(donated)
        addresses = {array.unsafe_buffer_pointer() for array in donated}
        placed = [
            place_array(one, spec.dtype, spec.shape, self.device, guard)
            for one, spec in zip(contents, self.kernel.operands, strict=True)
        ]
        results = library.block_until_ready(self.compiled(*donated, *(one.array for one in placed)))
        return _Outcome(
            contents=tuple(contents),
            canaries=canaries,
            in_canary=tuple(result.unsafe_buffer_pointer() in addresses for result in results),
            results=tuple(view_bytes(np.asarray(result)) for result in results),
            after=tuple(one.read() for one in placed),
            outside=tuple(one.count_changed_guards() for one in placed),
            is_guarded=tuple(one.is_guarded for one in placed),
        )

    def _find_left(self, output: int, base: _Outcome, other: _Outcome) -> Mask | None:
        """Returns which elements of an output the call leaves unwritten; None if the runs cannot show it."""
        result = self.wiring.outputs[output]
        if result is None or output in self.wiring.aliases.values() or not self.wiring.is_direct[output]:
            return None
        if not (base.in_canary[result] and other.in_canary[result]):
            return None
        size = self.kernel.results[result].dtype.itemsize
        kept = [one.results[result] == one.canaries[result] for one in (base, other)]
        return (kept[0] & kept[1]).reshape(-1, size).all(axis=1)

    def _find_differing(
        self, one: _Outcome, other: _Outcome, left: Sequence[Mask | None] = (), but: int | None = None
    ) -> set[str]:
        """Returns the names of the buffers that two runs left with different bytes.

        left: for each output, the elements that do not count. but: the number of an operand that does not count.
        """
        found: set[str] = set()
        for output, result in enumerate(self.wiring.outputs):
            operand = next((key for key, value in self.wiring.aliases.items() if value == output), None)
            if result is None or (but is not None and operand == but):
                continue
            size = self.kernel.results[result].dtype.itemsize
            differs = _compare(one.results[result], other.results[result], size)
            ignored = left[output] if left else None
            if (differs if ignored is None else differs & ~ignored).any():
                found.add(f"output {output}" if operand is None else f"operand {operand}")
        for operand, argument in enumerate(self.wiring.operands):
            if argument is None or operand == but or operand in self.wiring.aliases:
                continue
            if not np.array_equal(one.after[argument], other.after[argument]):
                found.add(f"operand {operand}")
        return found

    def _find_after(self, operand: int, outcome: _Outcome) -> tuple[Bytes, Bytes] | None:
        """Returns the bytes of an operand before and after the call; None if the run cannot show them."""
        argument = self.wiring.operands[operand]
        if argument is None:
            return None
        before = outcome.contents[argument]
        if operand in self.wiring.aliases:
            result = self.wiring.outputs[self.wiring.aliases[operand]]
            return None if result is None else (before, outcome.results[result])
        return (before, outcome.after[argument]) if self.wiring.is_own[operand] else None

    def _describe_operand(
        self, operand: int, outcomes: Sequence[_Outcome], perturbed: dict[int, _Outcome], unsteady: set[str]
    ) -> OperandRun:
        argument = self.wiring.operands[operand]
        if argument is None:
            return OperandRun(elements=0)
        size = self.kernel.operands[argument].dtype.itemsize
        pairs = [pair for outcome in outcomes if (pair := self._find_after(operand, outcome)) is not None]
        masks = [_compare(before, after, size) for before, after in pairs]
        changed = np.flatnonzero(np.logical_or.reduce(masks)) if masks else np.arange(0)
        return OperandRun(
            elements=self.contents[argument].size // size,
            written=int(changed.size),
            first=int(changed[0]) if changed.size else 0,
            last=int(changed[-1]) if changed.size else 0,
            is_written=Seen.UNTESTED if not masks else Seen.YES if changed.size else Seen.NO,
            is_read=self._find_read(operand, argument, outcomes[0], perturbed.get(argument), unsteady),
            outside=max(outcome.outside[argument] for outcome in outcomes),
            is_guarded=outcomes[0].is_guarded[argument] and self._is_original(operand),
        )

    def _is_original(self, operand: int) -> bool:
        """Returns whether the call gets the argument's own buffer, and no copy, beside which there are no guards."""
        return self.wiring.is_own[operand] and operand not in self.wiring.aliases

    def _find_read(
        self, operand: int, argument: int, base: _Outcome, perturbed: _Outcome | None, unsteady: set[str]
    ) -> Seen:
        if perturbed is None:
            return Seen.UNTESTED
        if self._find_differing(base, perturbed, but=operand) - unsteady or self._updates(operand, base, perturbed):
            return Seen.YES
        own = self._find_after(operand, base)
        return Seen.UNTESTED if unsteady or own is None else Seen.NO

    def _updates(self, operand: int, base: _Outcome, perturbed: _Outcome) -> bool:
        """Returns whether new contents of an operand depend on its old ones: an element that is written in one of two
        runs has different contents after them.
        """
        pairs = [self._find_after(operand, outcome) for outcome in (base, perturbed)]
        argument = self.wiring.operands[operand]
        if pairs[0] is None or pairs[1] is None or argument is None:
            return False
        size = self.kernel.operands[argument].dtype.itemsize
        written = _compare(*pairs[0], size) | _compare(*pairs[1], size)
        return bool((written & _compare(pairs[0][1], pairs[1][1], size)).any())

    def _describe_output(self, output: int, left: Mask | None) -> OutputRun:
        result = self.wiring.outputs[output]
        if result is None:
            return OutputRun(elements=0)
        spec = self.kernel.results[result]
        elements = int(np.prod(spec.shape, dtype=np.int64))
        if left is None:
            return OutputRun(elements=elements)
        found = np.flatnonzero(left)
        return OutputRun(
            elements=elements,
            left=int(found.size),
            first=int(found[0]) if found.size else 0,
            is_left=Seen.YES if found.size else Seen.NO,
        )


def compile_kernel(kernel: LoneKernel, contents: Sequence[Any], device: Any) -> CanaryRuns:
    """Compiles one kernel call as a program of its own for a device. The program has a donated argument for each
    result. The bytes of this argument, the canary, show which elements the kernel leaves unwritten.

    contents: the operands as NumPy arrays. Raises CompileError if the compiled program does not have exactly one custom
    call.
    """
    library: Any = jax
    count = len(kernel.results)

    def with_canaries(*arrays: Any) -> Any:
        return tuple(kernel.function(*arrays[count:]))

    place = SingleDeviceSharding(device)
    specs = [jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=place) for one in (*kernel.results, *kernel.operands)]
    jitted: Any = library.jit(with_canaries, donate_argnums=tuple(range(count)), keep_unused=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        compiled = jitted.lower(*specs).compile()
    module = parse_hlo_module(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
    return CanaryRuns(
        kernel=kernel,
        device=device,
        contents=tuple(view_bytes(array) for array in contents),
        compiled=compiled,
        wiring=read_wiring(module, count),
    )


def read_wiring(module: HloModule, canaries: int) -> Wiring:
    """Finds out how a compiled program passes its parameters to its only call. Its first `canaries` parameters are
    canaries, which show the elements that the call leaves unwritten.

    Raises CompileError if the program does not have exactly one custom call.
    """
    calls = list(module.iterate_custom_calls())
    if len(calls) != 1:
        raise CompileError(f"XLA compiled a program with one kernel call to {len(calls)} custom calls")
    ((home, call),) = calls
    way = _Way(module, home, call)
    leaves = list(iterate_leaves(call.shape))
    outputs: list[int | None] = [None] * len(leaves)
    direct = [False] * len(leaves)
    for result, (leaf, copied) in enumerate(way.find_results(len(leaves))):
        if leaf is not None:
            outputs[leaf], direct[leaf] = result, not copied
    sources = [way.find_argument(operand) for operand in call.operands]
    return Wiring(
        operands=tuple(None if number is None else number - canaries for number, _ in sources),
        is_own=tuple(number is not None and not copied for number, copied in sources),
        outputs=tuple(outputs),
        is_direct=tuple(direct),
        aliases=dict(call.aliasing_outputs),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """The way from the parameters of the entry computation to the call, and from the call to the results. The call is in
    the entry computation, or in a computation that the entry calls once, such as a command buffer.
    """

    module: HloModule
    home: HloComputation
    call: HloInstruction

    def find_argument(self, value: HloInstruction) -> tuple[int | None, bool]:
        """Finds the parameter of the program from which an operand of the call comes. Returns (number of the parameter,
        whether XLA copies it on the way). The number is None if the operand comes from no parameter.

        value: the operand.
        """
        value, copied = _skip_copies(value)
        caller = self._find_caller()
        if value.opcode == "parameter" and caller is not None:
            value, again = _skip_copies(caller.operands[value.proto.parameter_number])
            copied = copied or again
        return (value.proto.parameter_number if value.opcode == "parameter" else None), copied

    def find_results(self, leaves: int) -> list[tuple[int | None, bool]]:
        """Finds the output of the call from which each result of the program comes. Returns, for each result, (number
        of the output, whether XLA copies it on the way). The number is None if the result comes from no output.

        leaves: number of the call's outputs.
        """
        caller = self._find_caller()
        inner = _list_results(self.home.root, self.call, leaves)
        if caller is None:
            return inner
        found: list[tuple[int | None, bool]] = []
        for number, copied in _list_results(self.module.entry.root, caller, len(inner)):
            leaf, again = (None, False) if number is None else inner[number]
            found.append((leaf, copied or again))
        return found

    def _find_caller(self) -> HloInstruction | None:
        """Returns the instruction of the entry computation that runs the call's computation; None if that is the entry
        computation itself. Raises CompileError if it is not one instruction.
        """
        if self.home is self.module.entry:
            return None
        callers = self.module.callers.get(self.home.id, ())
        if len(callers) != 1 or self.module.homes.get(callers[0].id) is not self.module.entry:
            raise CompileError("XLA put the kernel call into a computation that the entry does not call exactly once")
        return callers[0]


def _list_results(root: HloInstruction, call: HloInstruction, leaves: int) -> list[tuple[int | None, bool]]:
    """Returns two things for each part of a computation's root: the number of the output of `call` from which the part
    comes, None if it comes from no output; and whether the part is a copy. leaves: number of the call's outputs.
    """
    if root is call:
        return [(number, False) for number in range(leaves)]
    found: list[tuple[int | None, bool]] = []
    for value in root.operands if root.opcode == "tuple" else (root,):
        source, copied = _skip_copies(value)
        if source is call:
            found.append((0, copied))
        elif source.opcode == "get-tuple-element" and source.operands[0] is call:
            found.append((source.proto.tuple_index, copied))
        else:
            found.append((None, False))
    return found


def _skip_copies(value: HloInstruction) -> tuple[HloInstruction, bool]:
    """Returns the instruction at the beginning of a chain of copies and bitcasts, and whether the chain contains a copy."""
    copied = False
    while value.opcode in ("copy", "bitcast"):
        value, copied = value.operands[0], copied or value.opcode == "copy"
    return value, copied


def _compare(one: Bytes, other: Bytes, size: int) -> Mask:
    """Returns which elements of `size` bytes differ."""
    return (one != other).reshape(-1, size).any(axis=1)


def _make_canary(spec: jax.ShapeDtypeStruct, number: int) -> Bytes:
    size = int(np.prod(spec.shape, dtype=np.int64)) * spec.dtype.itemsize
    pattern = make_pattern(size, number)
    return pattern & np.uint8(1) if spec.dtype == np.bool_ else pattern


def _perturb(contents: Bytes, dtype: Any, *, integers: bool) -> Bytes | None:
    """Returns other contents for an operand; None if no other contents are safe.

    contents: the bytes of the operand, whose elements have this dtype.
    """
    values = contents.view(dtype)
    if not values.size:
        return None
    if np.dtype(dtype) == np.bool_:
        return (~values).view(np.uint8)
    if np.dtype(dtype).kind in "fc" or np.dtype(dtype).name in _FLOATS:
        wide = values.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
        with np.errstate(all="ignore"):
            changed = np.where(np.isfinite(wide), -1.5 * wide - 0.5, 0.75).astype(dtype)
        same = ~_compare(view_bytes(changed), contents, np.dtype(dtype).itemsize)
        return view_bytes(np.where(same, np.asarray(0.25, dtype), changed).astype(dtype))
    if np.dtype(dtype).kind not in "iu" or not integers:
        return None
    rolled = np.roll(values, 1)
    if (rolled == values).all():
        rolled = np.where(values >= 1, values - np.asarray(1, dtype), values).astype(dtype)
    return None if (rolled == values).all() else view_bytes(rolled)
