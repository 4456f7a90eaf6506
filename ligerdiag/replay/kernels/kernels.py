"""Runs the kernels of an artifact on bytes, from their own Python source, and says what was seen of each launch.

Observes a kernel while it runs: what it leaves unwritten, and whether the order of its programs matters.

(1) An output with bytes of its own is filled with a canary before the launch. An element that still holds the canary
    afterwards was not written. If a kernel could have written that very value, another canary has to agree.
(2) A launch races when its results change as the programs of the grid run last to first, or when an operand and the
    output in its place get bytes of their own. The latter says nothing about a kernel that writes through the operand.
(3) If atomics were used, the order of the programs may show in the rounding, and that alone is no race.

Runs the kernels of an artifact on bytes, from their own Python source, and says what was seen of each.

The process must have had TRITON_INTERPRET=1 in its environment before triton was imported.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import ml_dtypes
import numpy as np

from ligerdiag.artifacts.call_records import KernelLaunch
from ligerdiag.model.findings import LaunchNumbers
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.kernels.grid import AtomicsError, Ran, count_programs, run_programs
from ligerdiag.replay.kernels.grid_pool import GridPool, copy_buffers, do_share, find_kernel

type Run = Callable[[Sequence[Array], Sequence[int] | None], Ran]
"""Runs programs, all of them where None, on operands and outputs."""

ATOMIC_ROUNDING = 64
"""Units of the last place by which results may differ as atomic additions come in another order."""

_CANARIES = {1: 0xA5, 2: 0x7FDB, 4: 0x7FDBA5A5, 8: 0x7FFBDBA5A5A5A5A5}
"""By bytes of an element: odd, and a NaN in every float type of two bytes or more, with a payload that no computation
gives."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watch:
    """One launch under observation."""

    launch: KernelLaunch
    operands: int
    fresh: tuple[int, ...]
    """Numbers of the outputs that are watched: neither zeroed nor sharing bytes with any other buffer."""

    def prepare(self, buffers: Sequence[Array], *, other: bool = False) -> None:
        """Zeroes the buffers that the launcher zeroes and fills the watched ones with a canary; other: with the other
        canary."""
        for output in self.launch.zeroed:
            buffers[self.operands + output].view(np.uint8)[...] = 0
        for output in self.fresh:
            bits = _view_bits(buffers[self.operands + output])
            bits[...] = _make_canary(bits, other)

    def find_unwritten(self, buffers: Sequence[Array], *, other: bool = False) -> Mapping[int, Array]:
        """Output number to a mask of the elements that hold the canary, for outputs that have any."""
        found: dict[int, Array] = {}
        for output in self.fresh:
            bits = _view_bits(buffers[self.operands + output])
            mask = bits == _make_canary(bits, other)
            if mask.any():
                found[output] = mask
        return found


def make_watch(launch: KernelLaunch, operands: Sequence[Array], outputs: Sequence[Array]) -> Watch:
    """See 1 above for what is watched."""
    buffers = (*operands, *outputs)
    fresh = tuple(
        number
        for number, output in enumerate(outputs)
        if number not in launch.zeroed
        and output.size
        and sum(do_share(output, other) for other in buffers) == 1  # with itself
    )
    return Watch(launch=launch, operands=len(operands), fresh=fresh)


def needs_confirmation(output: Array) -> bool:
    """Returns whether a kernel may have written the canary itself; no truth value is the canary, and no NaN of a
    float."""
    if output.dtype == np.bool_:
        return False
    return output.itemsize == 1 or (output.itemsize == 2 and output.dtype.kind in "iu")


def settle_truth_values(buffers: Sequence[Array]) -> None:
    """A canary in an array of truth values becomes true: NumPy relies on bytes of 0 and 1."""
    for buffer in buffers:
        if buffer.dtype == np.bool_:
            bits = buffer.view(np.uint8)
            bits[bits > 1] = 1


def find_races(
    watch: Watch, before: Sequence[Array], after: Sequence[Array], ran: Ran, run: Run
) -> Mapping[int, float]:
    """operand_number to the relative difference of the results, see 2 above; `before` is unprepared.

    before, after: operands, then outputs, sharing their bytes as in the schedule.
    """
    operands, outputs = range(watch.operands), range(watch.operands, len(before))
    sharing = {i: [o for o in outputs if do_share(before[i], before[o])] for i in operands}
    written = [i for i in operands if sharing[i] or not _are_equal(before[i], after[i])]
    if not written:
        return {}
    races: dict[int, float] = {}
    programs = count_programs(watch.launch)
    if programs > 1:
        again = copy_buffers(before)
        watch.prepare(again)
        run(again, range(programs - 1, -1, -1))
        differences = [_compute_difference(x, y, ran.atomics) for x, y in zip(again, after, strict=True)]
        own = {i: differences[i] for i in written if differences[i]}
        races = own or dict.fromkeys(written, max(differences)) if any(differences) else {}
    if any(sharing.values()):
        apart = (*copy_buffers(before[: watch.operands]), *copy_buffers(before[watch.operands :]))
        watch.prepare(apart)
        run(apart, None)
        through_operand = {i for i in operands if sharing[i] and not _are_equal(before[i], apart[i])}
        told = [o for o in outputs if not any(o in sharing[i] for i in through_operand)]
        difference = max((_compute_difference(apart[o], after[o], ran.atomics) for o in told), default=0.0)
        for i in operands:
            if difference and sharing[i] and i not in through_operand:
                races[i] = max(races.get(i, 0.0), difference)
    return races


def _make_canary(bits: Array, other: bool) -> Any:
    canary = _CANARIES[bits.itemsize]
    return bits.dtype.type(canary ^ ((1 << 8 * bits.itemsize) - 1) if other else canary)


def _view_bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


def _are_equal(one: Array, other: Array) -> bool:
    return np.array_equal(one.view(np.uint8), other.view(np.uint8))


def _compute_difference(one: Array, other: Array, atomics: bool) -> float:
    """||one - other|| over the larger norm, in f64; 1 where something is not finite, 0 where all bits agree."""
    differs = _view_bits(one) != _view_bits(other)
    if not differs.any():
        return 0.0
    x, y = one.astype(np.float64), other.astype(np.float64)
    apart = np.where(differs, x - y, 0.0)
    if not np.isfinite(apart).all():
        return 1.0
    x, y = (np.where(np.isfinite(values), values, 0.0) for values in (x, y))
    norm = max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))
    difference = float(np.linalg.norm(apart)) / norm if norm else 0.0
    return 0.0 if atomics and difference <= ATOMIC_ROUNDING * _get_epsilon(one) else difference


def _get_epsilon(array: Array) -> float:
    if array.dtype.kind in "biu":
        return 0.0
    library: Any = ml_dtypes
    return float(library.finfo(array.dtype).eps)


SECONDS_PER_BYTE = 7e-8
"""Of all buffers: the interpreter goes over each element a few times."""
SECONDS_PER_PROGRAM = 1.5e-3
SPLIT_SECONDS = 3.0
"""From this estimate on, starting processes costs less than it saves."""


def estimate_seconds(launch: KernelLaunch, buffer_bytes: int) -> float:
    """Returns a rough estimate of one core's seconds for the launch; buffer_bytes: of operands and outputs together."""
    return SECONDS_PER_BYTE * buffer_bytes + SECONDS_PER_PROGRAM * count_programs(launch)


@dataclass(slots=True, kw_only=True, eq=False)
class _Seen:
    """Observations of the launches of one call so far."""

    kernel: str
    launches: int = 0
    checked: int = 0
    unwritten: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    racing: dict[int, float] = field(default_factory=dict[int, float])


class KernelRunner:
    """Runs kernels by the payloads of their custom calls.

    processes: how many may share the programs of a launch that is estimated to take split_seconds or more.
    check_seconds, checks: races are looked for where one run is estimated to take at most so long, in so many launches of
    each call. round_to_nearest: f32 to bf16 as a GPU does it, see `narrow_floats`.
    """

    def __init__(
        self,
        launches: Sequence[KernelLaunch],
        *,
        processes: int = 1,
        check_seconds: float = 0.5,
        checks: int = 2,
        split_seconds: float = SPLIT_SECONDS,
        round_to_nearest: bool = False,
    ) -> None:
        self._launches: Mapping[str, KernelLaunch] = {launch.payload: launch for launch in launches}
        self._kernels: dict[str, Any] = {}
        self._seen: dict[str, _Seen] = {}
        self._unsplit: set[str] = set()
        self._check_seconds, self._checks = check_seconds, checks
        self._round_to_nearest, self._split_seconds = round_to_nearest, split_seconds
        self._pool = GridPool(processes) if processes > 1 and hasattr(os, "memfd_create") else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def launch(
        self, payload: str, operands: Sequence[Array], outputs: Sequence[Array], *, instruction: str = ""
    ) -> None:
        """Runs the kernel on these bytes: flat contiguous arrays in the order of the call's buffers.

        Operands and outputs may share memory; what the kernel writes, it writes there, also to operands. `instruction`
        names the call in `numbers`; nothing is watched where it is empty. Raises NotCoveredError.
        """
        launch = self._find_launch(payload)
        buffers = (*operands, *outputs)
        watch = make_watch(launch, operands, outputs if instruction else ())
        if not instruction:
            watch.prepare(buffers)
            self._run(launch, buffers, None)
            return
        seen = self._seen.setdefault(instruction, _Seen(kernel=launch.kernel))
        seen.launches += 1
        size = sum(buffer.nbytes for buffer in buffers)
        check = seen.checked < self._checks and estimate_seconds(launch, size) <= self._check_seconds
        before = copy_buffers(buffers) if check else ()
        watch.prepare(buffers)
        ran = self._run(launch, buffers, None)
        self._note_unwritten(watch, seen, buffers, before)
        if check:
            seen.checked += 1
            races = find_races(
                watch, before, buffers, ran, lambda copies, programs: self._run(launch, copies, programs)
            )
            for operand, difference in races.items():
                seen.racing[operand] = max(seen.racing.get(operand, 0.0), difference)
        settle_truth_values([outputs[number] for number in watch.fresh])

    def numbers(self) -> tuple[LaunchNumbers, ...]:
        """Returns the observations by instruction, in the order of the first launch of each."""
        return tuple(
            LaunchNumbers(
                kernel=seen.kernel,
                instruction=instruction,
                launches=seen.launches,
                checked=seen.checked,
                unwritten=dict(seen.unwritten),
                racing=dict(seen.racing),
            )
            for instruction, seen in self._seen.items()
        )

    def close(self) -> None:
        """Ends the processes, if any were started."""
        if self._pool is not None:
            self._pool.close()

    def _find_launch(self, payload: str) -> KernelLaunch:
        launch = self._launches.get(payload)
        if launch is None:
            raise NotCoveredError("a kernel call whose launch the artifact does not hold")
        if payload not in self._kernels:
            self._kernels[payload] = find_kernel(launch)
        return launch

    def _run(self, launch: KernelLaunch, buffers: Sequence[Array], programs: Sequence[int] | None) -> Ran:
        size = sum(buffer.nbytes for buffer in buffers)
        split = self._pool is not None and programs is None and launch.payload not in self._unsplit
        if self._pool is not None and split and estimate_seconds(launch, size) >= self._split_seconds:
            try:
                self._pool.run(launch, buffers, round_to_nearest=self._round_to_nearest)
                return Ran(atomics=False)
            except AtomicsError:
                self._unsplit.add(launch.payload)
        kernel = self._kernels[launch.payload]
        return run_programs(launch, kernel, buffers, programs, round_to_nearest=self._round_to_nearest)

    def _note_unwritten(self, watch: Watch, seen: _Seen, buffers: Sequence[Array], before: Sequence[Array]) -> None:
        """Keeps the worst launch of each output."""
        found = dict(watch.find_unwritten(buffers))
        if found and before:
            again = copy_buffers(before)
            watch.prepare(again, other=True)
            self._run(watch.launch, again, None)
            confirmed = watch.find_unwritten(again, other=True)
            found = {output: mask & confirmed[output] for output, mask in found.items() if output in confirmed}
        for output, mask in found.items():
            buffer = buffers[watch.operands + output]
            count = int(mask.sum())
            if count > seen.unwritten.get(output, (0, 0))[0] and (before or not needs_confirmation(buffer)):
                seen.unwritten[output] = (count, buffer.size)
