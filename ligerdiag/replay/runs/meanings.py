"""Runs two programs in program order on the same arguments, and compares their outputs."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ligerdiag.replay.ops.scope import Array
from ligerdiag.replay.runs.attribution import compute_error
from ligerdiag.replay.runs.case_run import Programs, compute_tolerances
from ligerdiag.replay.runs.kernel_memo import REMEMBERED_BYTES, RememberedKernels
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.program import run_program

type DrawArguments = Callable[[], tuple[Array, ...]]

_CHEAP_SECONDS = 20.0
"""A further set of arguments is compared only if the comparisons so far took no more than this many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The outputs in which two programs differ, and by how much."""

    errors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Maps the name of an output to the largest relative difference, over all sets of arguments, between the two
    programs; NaN if only one program's output is finite.
    """
    different: tuple[str, ...] = ()
    """Names of the outputs that differ by more than rounding explains."""
    draws: int = 1
    """Number of sets of arguments that were compared."""


def compare_programs(
    first: Programs, changed: Programs, draws: Iterable[DrawArguments], modules: Mapping[str, Path]
) -> Differences:
    """Runs both programs on several sets of arguments and returns the differences of their outputs. Stops at the first
    set that shows a difference, or when the time is up. Raises NotCoveredError if replay does not cover an operation.

    draws: functions that return one set of arguments each. modules: see `KernelRunner`.
    """
    start, found = time.monotonic(), list[Differences]()
    for draw in draws:
        found.append(_compare_on(first, changed, draw(), modules))
        if found[-1].different or time.monotonic() - start > _CHEAP_SECONDS:
            break
    errors = {name: _find_greatest([one.errors[name] for one in found]) for name in found[-1].errors}
    return Differences(errors=errors, different=found[-1].different, draws=len(found))


def _find_greatest(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def _compare_on(
    first: Programs, changed: Programs, arguments: tuple[Array, ...], modules: Mapping[str, Path]
) -> Differences:
    results: list[dict[str, Array]] = []
    for one in (first, changed):
        kernels = RememberedKernels(KernelRunner(check_seconds=0.0, modules=modules), REMEMBERED_BYTES)
        with np.errstate(all="ignore"):
            outputs = run_program(one.program, arguments, kernels, devices=one.signature.devices)
        results.append(dict(zip(one.signature.outputs, outputs, strict=True)))
    old, new = results
    tolerances = compute_tolerances(first, old)
    shapes = [name for name in old if old[name].shape != new[name].shape or old[name].dtype != new[name].dtype]
    if shapes:
        return Differences(different=tuple(shapes))
    errors: dict[str, float] = {}
    different: list[str] = []
    for name, value in old.items():
        if value.tobytes() == new[name].tobytes():
            errors[name] = 0.0
            continue
        errors[name] = compute_error(new[name], value)
        if not errors[name] <= tolerances[name]:
            different.append(name)
    return Differences(errors=errors, different=tuple(different))
