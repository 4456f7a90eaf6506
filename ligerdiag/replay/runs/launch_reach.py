"""Finds the outputs that depend on the fault of a racing or incomplete kernel call: runs the schedule again with the
call altered.

If a call's results depend on the order of the programs of its grid, the programs run in the order that showed this
dependence. The call reaches the outputs that then differ by more than rounding. The calls that read unwritten bytes, or
leave elements unwritten, are altered together, in one run, in which they find other garbage in their outputs. Such a
call reaches the outputs that depend on its results and differ in at least one bit. An output that differs but depends
on the results of none of these calls must depend on an operand that one of them overwrites; then all of these calls
count as reaching the output. If no output differs and some output is not finite, the run proves nothing. All other
calls run as before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""The most kernel calls whose grids are run in another order; each costs a run of the whole schedule."""

type RunSchedule = Callable[[Kernels], Mapping[str, Sequence[Array]]]
"""A function that runs the schedule with these kernels on fresh memory and returns the distinct copies of each output
by name.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlteredKernels:
    """Runs kernels without recording observations. Launches of the calls in `names` are altered: they run in another
    order of programs, or with other garbage in the outputs.
    """

    runner: KernelRunner
    names: frozenset[str]
    tried: OrderTried | None
    """How to alter the named calls, see `KernelRunner.launch_otherwise`; `OrderTried.NONE` alters nothing, None puts
    other garbage into their outputs.
    """

    def runs(self, instruction: HloInstruction) -> bool:
        """Returns whether `runner` runs the instruction."""
        return self.runner.runs(instruction)

    def launch(
        self, call: HloInstruction, operands: Sequence[Array], outputs: Sequence[Array], *, watched: bool
    ) -> None:
        """Runs the kernel of a call, and alters the launch if the call is in `names`. See `Kernels.launch`."""
        del watched
        tried = self.tried if call.name in self.names else OrderTried.NONE
        self.runner.launch_otherwise(call, operands, outputs, tried)


def describe_launches(
    launches: Sequence[LaunchNumbers], module: HloModule, runner: KernelRunner, run: RunSchedule
) -> tuple[LaunchNumbers, ...]:
    """Completes the observations of kernel calls. Each gets the call's source line. A call that races, or leaves
    elements unwritten, also gets the program's outputs that this fault changes.

    If no instruction uses an output of a call, the observations of that output are dropped. module: the schedule, which
    `run` runs.
    """
    calls = {one.name: one for one in module.instructions if one.opcode == "custom-call"}
    found = [
        _drop_unused_outputs(
            replace(one, line=find_user_line(module, calls[one.instruction])), module, calls[one.instruction]
        )
        if one.instruction in calls
        else one
        for one in launches
    ]
    ordered = [
        n for n, one in enumerate(found) if one.order_tried is not OrderTried.NONE and _get_largest(one) > ROUNDING
    ]
    incomplete = [n for n, one in enumerate(found) if one.old_reads or set(one.unwritten) - set(one.unwritten_later)]
    unaltered = (
        _run(run, AlteredKernels(runner=runner, names=frozenset(), tried=OrderTried.NONE))
        if ordered or incomplete
        else None
    )
    if unaltered is None:
        return tuple([_drop_unused_reads(one, module, calls.get(one.instruction)) for one in found])
    for number in ordered[:MOST_CALLS]:
        names = frozenset((found[number].instruction,))
        other = AlteredKernels(runner=runner, names=names, tried=found[number].order_tried)
        found[number] = replace(found[number], reached_by_order=_compare(run, other, unaltered))
    if incomplete:
        names = frozenset(found[number].instruction for number in incomplete)
        reached = _compare(run, AlteredKernels(runner=runner, names=names, tried=None), unaltered)
        dependent = {
            number: _list_dependent(module, calls.get(found[number].instruction), tuple(unaltered))
            for number in incomplete
        }
        rest = frozenset(reached or ()).difference(*dependent.values())
        for number in incomplete if reached is not None else ():
            own = tuple(name for name in reached or () if name in dependent[number] | rest)
            found[number] = replace(found[number], reached_by_garbage=own)
    return tuple([_drop_unused_reads(one, module, calls.get(one.instruction)) for one in found])


def _list_dependent(module: HloModule, call: HloInstruction | None, names: Sequence[str]) -> frozenset[str]:
    """Returns those of the given output names whose outputs depend on the call's results; all of them if the call is
    None, that is, if the module has no call of its name.

    names: the names of the program's outputs, in order.
    """
    if call is None:
        return frozenset(names)
    reach = find_reach(module, [(call, leaf) for leaf in iterate_leaves(call.shape)])
    return frozenset(name for number, name in enumerate(names) if number in reach.outputs)


def _drop_unused_outputs(launch: LaunchNumbers, module: HloModule, call: HloInstruction) -> LaunchNumbers:
    """Returns the observations without the unwritten elements of those outputs of the call that nobody uses."""
    unused = _find_unused(launch.unwritten, module, call)
    if not unused:
        return launch
    return replace(
        launch,
        unwritten={number: counts for number, counts in launch.unwritten.items() if number not in unused},
        unwritten_later=tuple(number for number in launch.unwritten_later if number not in unused),
    )


def _drop_unused_reads(launch: LaunchNumbers, module: HloModule, call: HloInstruction | None) -> LaunchNumbers:
    """Returns the observations without reads of unwritten bytes in those outputs of the call that nobody uses.

    These reads stay, however, if the garbage that the call reads reaches an output of the program, or if the call is
    None, that is, if the module has no call of its name.
    """
    if call is None or launch.reached_by_garbage:
        return launch
    unused = _find_unused([one.output for one in launch.old_reads], module, call)
    return replace(launch, old_reads=tuple(one for one in launch.old_reads if one.output not in unused))


def _find_unused(outputs: Iterable[int], module: HloModule, call: HloInstruction) -> frozenset[int]:
    leaves = list(iterate_leaves(call.shape))
    return frozenset(number for number in outputs if not find_reach(module, [(call, leaves[number])]).is_used)


def _get_largest(launch: LaunchNumbers) -> float:
    return max((launch.order_difference, *launch.racing.values()))


def _run(run: RunSchedule, kernels: AlteredKernels) -> Mapping[str, Sequence[Array]] | None:
    try:
        return run(kernels)
    except NotCoveredError:
        return None


def _compare(
    run: RunSchedule, kernels: AlteredKernels, unaltered: Mapping[str, Sequence[Array]]
) -> tuple[str, ...] | None:
    other = _run(run, kernels)
    if other is None:
        return None

    def differs(one: Array, two: Array) -> bool:
        if kernels.tried is None:
            return not have_same_bits(one, two)
        return compute_difference(one.reshape(-1), two.reshape(-1), atomics=False) > ROUNDING

    reached = tuple(
        name
        for name, copies in unaltered.items()
        if len(copies) != len(other[name]) or any(map(differs, copies, other[name]))
    )
    is_finite = all(
        np.isfinite(one).all() for copies in unaltered.values() for one in copies if one.dtype.kind not in "biu"
    )
    return reached if reached or is_finite else None
