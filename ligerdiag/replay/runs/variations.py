"""Runs the schedule again with one kernel call done otherwise, and says which outputs of the program differ.

1. A call whose results hang on the order of its programs runs in the order that showed it. An output is reached if it
   differs by more than rounding.
2. A call that reads what nobody has written, or leaves elements unwritten, finds something else in its outputs. An
   output is reached if a single bit differs. Where none is and some output is not finite, that tells nothing.
3. All other calls run as before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line
from ligerdiag.hlo.reach import find_reach
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import LaunchNumbers, OrderTried
from ligerdiag.replay.interpreter.dtypes import have_same_bits
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.runs.grid_orders import ROUNDING, compute_difference
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.program import Kernels

MOST_CALLS = 8
"""Calls of one program that are done otherwise, one after the other: each costs a run of the schedule."""

type RunSchedule = Callable[[Kernels], Mapping[str, Sequence[Array]]]
"""Runs the schedule with these kernels on memory of its own; returns each output, as all devices have it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OtherKernels:
    """Runs kernels through a runner, unobserved, and the call of one name otherwise."""

    runner: KernelRunner
    name: str
    tried: OrderTried | None
    """See `KernelRunner.launch_otherwise`; NONE runs this call, too, as before."""

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """See `Kernels.launch`."""
        del watched
        tried = self.tried if call.name == self.name else OrderTried.NONE
        self.runner.launch_otherwise(call, operands, outputs, tried)


def describe_launches(
    launches: Sequence[LaunchNumbers], module: HloModule, runner: KernelRunner, run: RunSchedule
) -> tuple[LaunchNumbers, ...]:
    """Returns the observations with the line of each call, without outputs that nobody uses, and with what they reach."""
    calls = {one.name: one for one in module.instructions if one.opcode == "custom-call"}
    found = [
        _drop_unused(replace(one, line=find_user_line(module, calls[one.instruction])), module, calls[one.instruction])
        if one.instruction in calls
        else one
        for one in launches
    ]
    plain: Mapping[str, Sequence[Array]] | None = None
    left = MOST_CALLS
    for number, one in enumerate(found):
        shows_order = one.order_tried is not OrderTried.NONE and _get_largest(one) > ROUNDING
        has_garbage = bool(one.old_reads) or any(output not in one.unwritten_later for output in one.unwritten)
        if not left or not (shows_order or has_garbage):
            continue
        left -= 1
        if plain is None:
            plain = _run(run, OtherKernels(runner=runner, name="", tried=OrderTried.NONE))
            if plain is None:
                break
        if shows_order:
            found[number] = replace(found[number], reached_by_order=_compare(run, runner, one, one.order_tried, plain))
        if has_garbage:
            found[number] = replace(found[number], reached_by_garbage=_compare(run, runner, one, None, plain))
    return tuple(found)


def _drop_unused(launch: LaunchNumbers, module: HloModule, call: HloInstruction) -> LaunchNumbers:
    """Without the outputs of the call of which nothing comes: what stands there is nobody's matter."""
    leaves = list(iterate_leaves(call.shape))
    asked = {*launch.unwritten, *(one.output for one in launch.old_reads)}
    unused = {number for number in asked if not find_reach(module, [(call, leaves[number])]).is_used}
    if not unused:
        return launch
    return replace(
        launch,
        unwritten={number: counts for number, counts in launch.unwritten.items() if number not in unused},
        unwritten_later=tuple(number for number in launch.unwritten_later if number not in unused),
        old_reads=tuple(one for one in launch.old_reads if one.output not in unused),
    )


def _get_largest(launch: LaunchNumbers) -> float:
    return max((launch.order_difference, *launch.racing.values()))


def _run(run: RunSchedule, kernels: OtherKernels) -> Mapping[str, Sequence[Array]] | None:
    try:
        return run(kernels)
    except NotCoveredError:
        return None


def _compare(
    run: RunSchedule,
    runner: KernelRunner,
    launch: LaunchNumbers,
    tried: OrderTried | None,
    plain: Mapping[str, Sequence[Array]],
) -> tuple[str, ...] | None:
    other = _run(run, OtherKernels(runner=runner, name=launch.instruction, tried=tried))
    if other is None:
        return None

    def differs(one: Array, two: Array) -> bool:
        if tried is None:
            return not have_same_bits(one, two)
        return compute_difference(one.reshape(-1), two.reshape(-1), atomics=False) > ROUNDING

    reached = tuple(
        name
        for name, copies in plain.items()
        if len(copies) != len(other[name]) or any(map(differs, copies, other[name]))
    )
    is_finite = all(
        np.isfinite(one).all() for copies in plain.values() for one in copies if one.dtype.kind not in "biu"
    )
    return reached if reached or is_finite else None
