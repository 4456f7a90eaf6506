"""How far the program's own roundings take an output: where its dtypes alone do not explain an error, and where a
workaround
rounds.

A difference of two large sums, such as a gate's gradient from `cumsum(dq * q - dk * k)`, has lost digits in program
order
already: XLA, which adds in another order, loses others. The dtypes do not show it. So the program runs again with every
result moved by a random part of what its rounding may come to, and an output differs by what all of them come to: Monte
Carlo arithmetic (D. S. Parker, "Monte Carlo Arithmetic: exploiting randomness in floating-point arithmetic", 1997).

A result of n terms is moved by at most sqrt(n) eps / 2 of itself, and of the root mean square of the array: as in
`compute_tolerance`, n roundings of which each goes its own way. A product with a constant is moved as a whole besides,
by
eps / 2: XLA makes one constant of two that an array is multiplied with, and the rounding of that goes one way
everywhere.
So does that of few digits which are scaled and rounded to as few again, and which XLA leaves out: 1.03 times a number
of
e4m3 rounds to the number.
What a kernel computes is not moved: the schedule runs the same one.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod, sqrt
from operator import is_
from typing import Any

import ml_dtypes
import numpy as np

from ligerdiag.effects.call import carries_kernel
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.roundings import RoundingPair, find_rounding_pairs
from ligerdiag.model.findings import FAR, Attribution, OutputNumbers
from ligerdiag.replay.ops.scope import Array, Cell, Cells, Multiply, list_cells
from ligerdiag.replay.runs.attribution import compute_error, rank_error
from ligerdiag.replay.runs.program import Kernels, run_program

_ROUNDS, _PRODUCTS, _REDUCTIONS = having(Trait.ROUNDS), having(Trait.LIBRARY_CALL), having(Trait.REDUCES)
_CASTS, _BARRIERS = having(Trait.CASTS), having(Trait.BARRIER)
_SCALES, _KEEPS_SCALAR = ("multiply", "divide"), having(Trait.KEEPS_SCALAR, Trait.BARRIER)
_SAMPLES = 2
_FACTOR = 8.0
"""An error is the difference of two samples of which one is XLA's; few samples, and terms that cancel, as of
`compute_tolerance`."""
_MOST = 100.0
"""Times the tolerance of the dtypes: beyond it numbers tell too little to call an output fresh by them."""


def needs_rounding(numbers: OutputNumbers) -> bool:
    """Returns whether no hidden write explains the output's error, and roundings may."""
    return (
        numbers.attribution in (Attribution.NEITHER, Attribution.LOSSY)
        and numbers.distance <= numbers.tolerance < numbers.error
    )


def measure_rounding(
    program: HloModule,
    arguments: Sequence[Array],
    kernels: Kernels,
    intended: Mapping[str, Array],
    tolerances: Mapping[str, float],
    *,
    devices: int,
) -> dict[str, float]:
    """Returns the tolerances, wider where the roundings of program order come to more; relative errors in norm.

    intended: the outputs in program order, by name in order, of these arguments. Raises NotCoveredError.
    """
    found = dict(tolerances)
    for name, errors in measure_noise(program, arguments, kernels, intended, devices=devices).items():
        for error in errors:
            if isfinite(error):
                found[name] = max(found[name], _FACTOR * error)
    return found


def measure_noise(
    program: HloModule,
    arguments: Sequence[Array],
    kernels: Kernels,
    intended: Mapping[str, Array],
    *,
    devices: int,
    samples: range = range(_SAMPLES),
) -> dict[str, tuple[float, ...]]:
    """Returns how far each output is from `intended` when roundings are moved, for each sample; as a relative error in
    norm,
    NaN where it is not finite. samples: their seeds. Raises NotCoveredError."""
    found: dict[str, tuple[float, ...]] = dict.fromkeys(intended, ())
    for seed in samples:
        noise = _Noise(np.random.default_rng(seed))
        results = run_program(program, arguments, kernels, devices=devices, watch=noise)
        for (name, array), result in zip(intended.items(), results, strict=True):
            found[name] = (*found[name], compute_error(result, array))
    return found


def settle(numbers: OutputNumbers, tolerance: float) -> OutputNumbers:
    """Returns the numbers, compared within what roundings come to, as undecided where that is far beyond `tolerance`,
    of the
    dtypes, or `FAR`: many wrong results would look the same."""
    if numbers.attribution is Attribution.FRESH and numbers.tolerance > min(_MOST * tolerance, FAR):
        return replace(numbers, attribution=Attribution.UNDECIDED)
    return numbers


def is_overwritten(seen: tuple[Array, Array], unseen: tuple[Array, Array], *, tolerance: float) -> bool:
    """Returns whether what kernels overwrite makes a difference that looks like rounding.

    seen: an output of the schedule, and in program order. unseen: the same where nothing sees what kernels overwrite;
    XLA
    made the schedule for that, and what is left are roundings. tolerance: what these come to, a relative error.
    """
    (actual, intended), (isolated, stale) = seen, unseen
    if not compute_error(isolated, stale) <= tolerance:
        return False
    return _MOST_ROUNDING * _measure(isolated, stale) < _measure(actual, intended)


def _measure(array: Array, other: Array) -> float:
    """Returns the norm of the difference."""
    difference: Array = array.astype(np.complex128) - other.astype(np.complex128)
    return float(np.sqrt(np.sum(np.abs(difference) ** 2)))


_MOST_ROUNDING = 10.0
"""How much larger than the roundings a difference has to be that is none."""


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Moves the results of a run by what their rounding may come to."""

    random: np.random.Generator

    def before(self, operands: Iterable[Cells]) -> None:
        """Operands are as they are."""

    def after(self, instruction: HloInstruction, values: Sequence[Cells]) -> None:
        if instruction.opcode in _ROUNDS:
            results = list_cells(values[0])
            operands = [cell.array.size for operand in values[1:] for cell in list_cells(operand)]
            factor = self.random.choice((-1.0, 1.0)) if _goes_one_way(instruction) else 0.0
            for cell in results:
                self._move(cell, _count_terms(instruction, operands, cell.array.size), factor)

    def _move(self, cell: Cell, terms: float, factor: float) -> None:
        array = cell.array
        if array.dtype.kind in "biuc" or not array.size:
            return
        find: Any = ml_dtypes.finfo
        half = float(find(array.dtype).eps) / 2
        most, exact = sqrt(terms) * half, array.astype(np.float64)
        scale: Array = np.abs(exact)
        if terms > 1:
            scale = np.maximum(scale, np.sqrt(np.mean(exact * exact)))
        moved = exact * (1 + factor * half) + self.random.uniform(-most, most, array.shape) * scale
        cell.array = moved.astype(array.dtype)


def measure_workarounds(
    program: HloModule,
    arguments: Sequence[Array],
    kernels: Kernels,
    intended: Mapping[str, Array],
    *,
    devices: int,
    most: Mapping[int, int],
    multiply: Multiply,
) -> dict[str, float]:
    """Returns how far each output in program order is from what it is without the additions and subtractions around an
    operand of a kernel that order its readers; relative errors in norm, empty where there are none.

    most, multiply: as of `run_program`. Raises NotCoveredError.
    """
    pairs = {
        pair.subtraction.id: pair
        for computation in program.computations.values()
        for call in computation.instructions
        if call.opcode == "custom-call" and carries_kernel(call.proto.custom_call_target)
        for operand in range(len(call.operands))
        for pair in find_rounding_pairs(computation, call, operand, is_)
    }
    if not pairs:
        return {}
    exact = _Exact(pairs, {number: deque() for number in pairs})
    results = run_program(program, arguments, kernels, devices=devices, watch=exact, most=most, multiply=multiply)
    return {
        name: rank_error(compute_error(array, result))
        for (name, array), result in zip(intended.items(), results, strict=True)
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Exact:
    """Has each subtraction give what was added to, bit for bit."""

    pairs: Mapping[int, RoundingPair]
    """By the id of the subtraction."""
    added_to: Mapping[int, deque[Array]]
    """Id of a subtraction to what was added to and not yet subtracted from, device by device."""

    def before(self, operands: Iterable[Cells]) -> None:
        """Operands are as they are."""

    def after(self, instruction: HloInstruction, values: Sequence[Cells]) -> None:
        for number, pair in self.pairs.items():
            if pair.addition is instruction:
                (cell,) = list_cells(values[1 + pair.place])
                self.added_to[number].append(cell.array)
            elif pair.subtraction is instruction:
                (cell,) = list_cells(values[0])
                exact = self.added_to[number].popleft()
                if exact.shape == cell.array.shape:
                    cell.array = exact.astype(cell.array.dtype)


def _goes_one_way(instruction: HloInstruction) -> bool:
    """Whether the rounding of the result may go one way everywhere."""
    if instruction.opcode not in _CASTS:
        return _has_constant(instruction)
    scaled = _look_behind(instruction.operands[0])
    if not _has_constant(scaled):
        return False
    factors = map(_look_behind, scaled.operands)
    narrow = instruction.shape.element_type
    return any(one.opcode in _CASTS and one.operands[0].shape.element_type == narrow for one in factors)


def _look_behind(value: HloInstruction) -> HloInstruction:
    """Returns what the barriers that end here hand on."""
    while value.opcode in _BARRIERS:
        value = value.operands[0]
    return value


def _has_constant(instruction: HloInstruction) -> bool:
    """Whether it multiplies with, or divides by, a constant."""
    return instruction.opcode in _SCALES and any(map(_is_constant, instruction.operands))


def _is_constant(value: HloInstruction) -> bool:
    while value.opcode in _KEEPS_SCALAR:
        value = value.operands[0]
    return value.opcode == "constant"


def _count_terms(instruction: HloInstruction, operands: Sequence[int], size: int) -> float:
    """Returns the number of terms of each element of a result with so many elements."""
    if instruction.opcode in _PRODUCTS:
        return max(1.0, sqrt(operands[0] * operands[1] / size))
    if instruction.opcode in _REDUCTIONS:
        window = instruction.proto.window.dimensions
        return float(prod([dimension.size for dimension in window])) if window else max(1.0, max(operands) / size)
    return 1.0
