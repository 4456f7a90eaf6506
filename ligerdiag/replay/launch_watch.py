"""Observes a kernel while it runs: what it leaves unwritten, and whether the order of its programs matters.

(1) An output with bytes of its own is filled with a canary before the launch. An element that still holds the canary
    afterwards was not written. If a kernel could have written that very value, another canary has to agree.
(2) A launch races when its results change as the programs of the grid run last to first, or when an operand and the
    output in its place get bytes of their own. The latter says nothing about a kernel that writes through the operand.
(3) If atomics were used, the order of the programs may show in the rounding, and that alone is no race.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.compile.kernel_launch import KernelLaunch
from ligerdiag.replay.grid import Ran, count_programs
from ligerdiag.replay.opcodes.scope import Array
from ligerdiag.replay.sharing import copy_buffers, do_share

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
