"""Runs the schedule again with one kernel call done otherwise, and says which outputs of the program differ.

1. A call whose results hang on the order of its programs runs in the order that showed it. An output is reached if it
   differs by more than rounding.
2. All calls that read what nobody has written, or leave elements unwritten, find something else in their outputs. An
   output is reached by one of them if a single bit differs, and the output depends on what that call returns. Where
   none
   is and some output is not finite, that tells nothing.
3. All other calls run as before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line
from ligerdiag.hlo.reach import find_reach
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import LaunchNumbers, OrderTried
from ligerdiag.replay.ops.dtypes import have_same_bits
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.grid_orders import ROUNDING, compute_difference
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.program import Kernels

MOST_CALLS = 8
"""Calls of one program that run in another order, one after the other: each costs a run of the schedule."""

type RunSchedule = Callable[[Kernels], Mapping[str, Sequence[Array]]]
"""Runs the schedule with these kernels on memory of its own; returns each output, as all devices have it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OtherKernels:
    """Runs kernels through a runner, unobserved, and the calls of some names otherwise."""

    runner: KernelRunner
    names: frozenset[str]
    tried: OrderTried | None
    """See `KernelRunner.launch_otherwise`; NONE runs these calls, too, as before."""

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """See `Kernels.launch`."""
        del watched
        tried = self.tried if call.name in self.names else OrderTried.NONE
        self.runner.launch_otherwise(call, operands, outputs, tried)


def describe_launches(
    launches: Sequence[LaunchNumbers], module: HloModule, runner: KernelRunner, run: RunSchedule
) -> tuple[LaunchNumbers, ...]:
    """Returns the observations with the line of each call, without outputs that nobody uses, and with what they
    reach."""
    calls = {one.name: one for one in module.instructions if one.opcode == "custom-call"}
    found = [
        _drop_unused(replace(one, line=find_user_line(module, calls[one.instruction])), module, calls[one.instruction])
        if one.instruction in calls
        else one
        for one in launches
    ]
    ordered = [
        n for n, one in enumerate(found) if one.order_tried is not OrderTried.NONE and _get_largest(one) > ROUNDING
    ]
    garbage = [n for n, one in enumerate(found) if one.old_reads or set(one.unwritten) - set(one.unwritten_later)]
    plain = (
        _run(run, OtherKernels(runner=runner, names=frozenset(), tried=OrderTried.NONE)) if ordered or garbage else None
    )
    if plain is None:
        return tuple(found)
    for number in ordered[:MOST_CALLS]:
        names = frozenset((found[number].instruction,))
        other = OtherKernels(runner=runner, names=names, tried=found[number].order_tried)
        found[number] = replace(found[number], reached_by_order=_compare(run, other, plain))
    if garbage:
        names = frozenset(found[number].instruction for number in garbage)
        reached = _compare(run, OtherKernels(runner=runner, names=names, tried=None), plain)
        for number in garbage if reached is not None else ():
            dependent = _list_dependent(module, calls.get(found[number].instruction), tuple(plain))
            own = tuple(name for name in reached or () if name in dependent)
            found[number] = replace(found[number], reached_by_garbage=own)
    return tuple(found)


def _list_dependent(module: HloModule, call: HloInstruction | None, names: Sequence[str]) -> frozenset[str]:
    """The outputs that depend on what the call returns; all where the call is not known."""
    if call is None:
        return frozenset(names)
    reach = find_reach(module, [(call, leaf) for leaf in iterate_leaves(call.shape)])
    return frozenset(name for number, name in enumerate(names) if number in reach.outputs)


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


def _compare(run: RunSchedule, kernels: OtherKernels, plain: Mapping[str, Sequence[Array]]) -> tuple[str, ...] | None:
    other = _run(run, kernels)
    if other is None:
        return None

    def differs(one: Array, two: Array) -> bool:
        if kernels.tried is None:
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
