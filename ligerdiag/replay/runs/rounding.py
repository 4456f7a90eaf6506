"""Measures how far roundings move the outputs of program order: all roundings together, or only those of workarounds. A
workaround such as `x + s - s` makes the readers of a kernel's operand `x` wait for the kernel that computes `s`.

A difference of two large sums, such as a gate's gradient from `cumsum(dq * q - dk * k)`, loses digits even in program
order, and XLA, which adds in another order, loses other digits. The dtypes do not show this. So if the dtypes do not
explain an output's error, the program runs again with every result moved at random within its rounding. The distance of
such a sample from the exact run shows the effect of all roundings together. This is Monte Carlo arithmetic (D. S.
Parker, "Monte Carlo Arithmetic: exploiting randomness in floating-point arithmetic", 1997).

A result of n terms moves by at most sqrt(n) eps / 2 of its own size, or of the root mean square of the array if that is
larger. This is the sum of n independent roundings (see `compute_tolerance`). Two kinds of results also move as a whole,
all elements in the same direction, by eps / 2. The first is a product with a constant: XLA folds two constant factors
into one, and the rounding of this factor shifts all elements alike. The second is a narrow float that is scaled and
then rounded to an equally narrow float. XLA leaves this rounding out, and the rounding may shift all elements alike:
1.03 times a number of e4m3 rounds back to the number. The results of kernels do not move, because the schedule runs the
same kernels.
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
from ligerdiag.hlo.dataflow import RoundingPair, find_rounding_pairs
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.model.findings import FAR, Attribution, OutputNumbers
from ligerdiag.replay.ops.products import multiply
from ligerdiag.replay.ops.scope import Array, Cell, Cells, Multiply, list_cells
from ligerdiag.replay.runs.attribution import compute_error, rank_error
from ligerdiag.replay.runs.program import Kernels, run_program

_ROUNDS, _PRODUCTS, _REDUCTIONS = having(Trait.ROUNDS), having(Trait.LIBRARY_CALL), having(Trait.REDUCES)
_CASTS, _BARRIERS = having(Trait.CASTS), having(Trait.BARRIER)
_SCALES, _KEEPS_SCALAR = ("multiply", "divide"), having(Trait.KEEPS_SCALAR, Trait.BARRIER)
_SAMPLES = 2
_FACTOR = 8.0
"""Multiple of a sample's distance up to which an error counts as rounding. It is this large because XLA's result is
itself a sample, because few samples are taken, and because terms may cancel.
"""
_MOST = 100.0
"""A measured tolerance beyond this multiple of the dtypes' tolerance cannot prove an output fresh."""


def needs_rounding(numbers: OutputNumbers) -> bool:
    """Returns whether roundings must be measured, because they may explain the output's error. The error must exceed
    the tolerance. The attribution must be `neither`, or `lossy` for an output that no hidden write changes.
    """
    if not numbers.error > numbers.tolerance:
        return False
    is_lossy = numbers.attribution is Attribution.LOSSY
    return numbers.attribution is Attribution.NEITHER or (is_lossy and not _is_reached(numbers))


def judge_rounded(numbers: OutputNumbers, widened: OutputNumbers, tolerance: float) -> OutputNumbers:
    """Corrects the numbers of an output by the measured roundings. `needs_rounding` must be true for it.

    If the intended and the stale values agree, returns `widened`, or an undecided output if so wide a tolerance proves
    nothing. If they differ, a hidden write changes the output and may also cause the error, so `numbers` is returned
    unchanged. There is one exception: roundings alone may be as large as the error and as the whole value, as in a sum
    that is zero but for roundings. Such an output is undecided, never fresh.

    widened: the numbers of the same output, compared with the measured tolerance. tolerance: the tolerance of the
    dtypes.
    """
    if not _is_reached(numbers):
        return demote_imprecise(widened, tolerance)
    if max(numbers.error, 1.0) <= widened.tolerance:
        return replace(widened, attribution=Attribution.UNDECIDED)
    return numbers


def _is_reached(numbers: OutputNumbers) -> bool:
    """Returns whether a hidden write changes the output: the intended and the stale values differ."""
    return not numbers.distance <= numbers.tolerance


def measure_rounding(
    program: HloModule,
    arguments: Sequence[Array],
    kernels: Kernels,
    intended: Mapping[str, Array],
    tolerances: Mapping[str, float],
    *,
    devices: int,
    multiply: Multiply = multiply,
) -> dict[str, float]:
    """Returns the tolerance of each output by name, a relative error in norm. A tolerance grows if the roundings of
    program order exceed it. Raises NotCoveredError if replay does not cover an operation.

    intended: the outputs of program order for these arguments, by name, in order. multiply: computes the products of
    the runs whose results are moved.
    """
    found = dict(tolerances)
    noise = measure_noise(program, arguments, kernels, intended, devices=devices, multiply=multiply)
    for name, errors in noise.items():
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
    multiply: Multiply = multiply,
) -> dict[str, tuple[float, ...]]:
    """Measures how far each output moves if every result of the program moves at random within its rounding. Raises
    NotCoveredError if replay does not cover an operation.

    Returns, by output name, one distance from `intended` for each sample: a relative error in norm, or NaN if the
    output is not finite. samples: the seeds of the samples. multiply: computes the products.
    """
    found: dict[str, tuple[float, ...]] = dict.fromkeys(intended, ())
    for seed in samples:
        noise = _Noise(np.random.default_rng(seed))
        results = run_program(program, arguments, kernels, devices=devices, watch=noise, multiply=multiply)
        for (name, array), result in zip(intended.items(), results, strict=True):
            found[name] = (*found[name], compute_error(result, array))
    return found


def demote_imprecise(numbers: OutputNumbers, tolerance: float) -> OutputNumbers:
    """Makes a fresh output undecided if its measured tolerance is very wide. Very wide is wider than `FAR`, or far
    wider than the tolerance of its dtypes: many wrong results would then look fresh. Any other output is returned
    unchanged.

    tolerance: the tolerance of the dtypes.
    """
    if numbers.attribution is Attribution.FRESH and numbers.tolerance > min(_MOST * tolerance, FAR):
        return replace(numbers, attribution=Attribution.UNDECIDED)
    return numbers


def is_overwritten(seen: tuple[Array, Array], unseen: tuple[Array, Array], *, tolerance: float) -> bool:
    """Returns whether an error that looks like rounding comes from hidden writes.

    seen: two values of one output, from the schedule and from program order. unseen: the same two, computed with
    kernels that leave their operands unchanged, as XLA assumes; only roundings can make these two differ. tolerance:
    the relative error that such roundings explain.
    """
    (actual, intended), (isolated, stale) = seen, unseen
    if not compute_error(isolated, stale) <= tolerance:
        return False
    return _MOST_ROUNDING * _measure(isolated, stale) < _measure(actual, intended)


def _measure(array: Array, other: Array) -> float:
    """Returns the norm of the difference of two arrays."""
    difference: Array = array.astype(np.complex128) - other.astype(np.complex128)
    return float(np.sqrt(np.sum(np.abs(difference) ** 2)))


_MOST_ROUNDING = 10.0
"""A difference larger than this multiple of the measured roundings does not come from rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Moves the results of a run at random, each within its rounding."""

    random: np.random.Generator

    def before(self, operands: Iterable[Cells]) -> None:
        """Does nothing: only results are moved, not operands."""

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
    """Returns the relative error, in norm, that workarounds cause in each output of program order. Returns an empty
    mapping if the program has no workaround. Raises NotCoveredError if replay does not cover an operation.

    A workaround is an addition and subtraction around a kernel's operand, which makes the operand's readers wait. most,
    multiply: see `run_program`.
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
    """Makes each workaround exact: the subtraction in `x + s - s` returns the original `x`, bit for bit."""

    pairs: Mapping[int, RoundingPair]
    """Maps the id of each workaround's subtraction to the workaround's addition and subtraction."""
    added_to: Mapping[int, deque[Array]]
    """Maps the id of each workaround's subtraction to a queue of the arrays `x` that the addition has read and the
    subtraction has not restored yet, in the order of the devices.
    """

    def before(self, operands: Iterable[Cells]) -> None:
        """Does nothing: `after` records the operands."""

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
    """Returns whether all elements of the result may be rounded in the same direction, so that their rounding errors do
    not average out.
    """
    if instruction.opcode not in _CASTS:
        return _has_constant(instruction)
    scaled = _skip_barriers(instruction.operands[0])
    if not _has_constant(scaled):
        return False
    factors = map(_skip_barriers, scaled.operands)
    narrow = instruction.shape.element_type
    return any(one.opcode in _CASTS and one.operands[0].shape.element_type == narrow for one in factors)


def _skip_barriers(value: HloInstruction) -> HloInstruction:
    """Returns the value that reaches `value` through optimization barriers; `value` itself if it is not a barrier."""
    while value.opcode in _BARRIERS:
        value = value.operands[0]
    return value


def _has_constant(instruction: HloInstruction) -> bool:
    """Returns whether the instruction multiplies with, or divides by, a constant."""
    return instruction.opcode in _SCALES and any(map(_is_constant, instruction.operands))


def _is_constant(value: HloInstruction) -> bool:
    while value.opcode in _KEEPS_SCALAR:
        value = value.operands[0]
    return value.opcode == "constant"


def _count_terms(instruction: HloInstruction, operands: Sequence[int], size: int) -> float:
    """Returns the number of terms of which each element of the result is the sum.

    operands: the number of elements of each operand. size: the number of elements of the result.
    """
    if instruction.opcode in _PRODUCTS:
        return max(1.0, sqrt(operands[0] * operands[1] / size))
    if instruction.opcode in _REDUCTIONS:
        window = instruction.proto.window.dimensions
        return float(prod([dimension.size for dimension in window])) if window else max(1.0, max(operands) / size)
    return 1.0
