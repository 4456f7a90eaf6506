"""Replays a case with opaque functions in place of its custom calls, in f64, and compares output by output.

The runs are those of `case_run`: program order, program order in isolated memory, and the schedule. Both modules are
widened to f64 (see `widening`), and each custom call runs as an opaque function (see `opaque`). So nothing here needs a
call's code, and everything depends on the effects that the analysis, or the user's declaration, says that a call has.

XLA folds constants and rewrites arithmetic in the original types, for instance `x / 3` to `x * 0.333...`, rounded to bf16.
How far that moves an output is measured: the schedule runs with functions that leave their operands unchanged, and should
then give the stale prediction. `_CALIBRATION` times its error is the tolerance of the output, at least `LEAST` and at most
the tolerance that the original types have in an ordinary replay. An output with a larger error is wrong, because only a
hidden write that the schedule orders differently can cause it. But rounding also enters through the values that an opaque
function reads, and loops amplify it. A schedule whose functions leave their operands unchanged does not show this part. An
output that is much nearer to the intended than to the stale prediction (`_NEAR`), with an error that rounding can reach
(`_NOISE`, `_SHARE`), is undecided.

With functions that leave their operands unchanged, the schedule may miss even the stale prediction by more than the
original types explain. Wrong numbers then need not come from a hidden write, so the output is undecided. One exception:
if that error is at least `FAR` and no loop is cut short, the schedule computes another value altogether, and the output
is wrong.

If the schedule branches, there are several such comparisons (`count_draws`), each with other functions; in half of them
the functions have values of both signs. An output is wrong if one of the comparisons finds it wrong. It may be that
none of them takes the branch that the program takes with its real kernels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter

import numpy as np

from ligerdiag.effects.access import CallEffects
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.model.findings import FAR, Attribution, OpaqueReplay, OutputNumbers, ReplayState
from ligerdiag.replay.opaque_calls import OpaqueCall, OpaqueCalls
from ligerdiag.replay.opaque_runs.opaque import OpaqueRunner, describe_call, is_opaque
from ligerdiag.replay.opaque_runs.wide_memory import WideScheduleRunner
from ligerdiag.replay.opaque_runs.widening import widen_array, widen_module
from ligerdiag.replay.ops.dtypes import get_dtype
from ligerdiag.replay.ops.remembered_products import RememberedProducts
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.runs.attribution import compare_output, compute_error, rank_error
from ligerdiag.replay.runs.case_run import (
    Outputs,
    Programs,
    compute_tolerances,
    run_schedule,
    split_arguments,
)
from ligerdiag.replay.runs.kernel_memo import REMEMBERED_PRODUCTS
from ligerdiag.replay.runs.loop_cuts import NO_CUTS, Cuts
from ligerdiag.replay.runs.program import run_intended_and_stale

LEAST = 1e-10
"""The least tolerance of an output of floats: rounding errors in f64 stay far below it."""
_DRAWS = 4
"""Number of runs with other functions if the schedule branches."""
_CALIBRATION = 8.0
"""Tolerance of an output, as a multiple of the error that the schedule has with functions that leave their operands
unchanged.
"""
_NOISE = 1e-6
"""The largest error that rounding in f64 may cause if loops and opaque functions amplify it; 2e-7 was seen."""
_SHARE = 0.01
"""The largest error that may come from a constant that XLA has folded in the original types and that an opaque function
reads, as a share of the tolerance of these types in an ordinary replay; a share of 0.005 was seen.
"""
_NEAR = 1e-3
"""A small error may be rounding if it is below this share of the distance to the stale prediction."""
_NEAR_ZERO = 0.01
"""Like `_NEAR`, for runs whose functions have values of both signs: below this share, an error of any size may be
rounding, because a division by a value near 0 magnifies the roundings of that value. A share of 0.001 was seen.
"""


def list_opaque_calls(
    program: HloModule, optimized: HloModule, find_effects: Callable[[HloInstruction], CallEffects]
) -> OpaqueCalls:
    """Returns the custom calls of both modules that run as opaque functions. If a call cannot run as one, the field
    `not_covered` of the result says why.

    find_effects: returns the effects of a call of either module.
    """
    kernels: dict[str, None] = {}

    def describe(module: HloModule, has_layouts: bool) -> tuple[OpaqueCall, ...]:
        found: list[OpaqueCall] = []
        for _, call in module.iterate_custom_calls():
            if is_opaque(call):
                effects = find_effects(call)
                kernels[effects.kernel] = None
                found.append(describe_call(call, effects, has_layouts=has_layouts))
        return tuple(found)

    try:
        calls, scheduled = describe(program, has_layouts=False), describe(optimized, has_layouts=True)
        known = {one.function for one in calls}
        names = {one.id: one.name for one in optimized.instructions}
        other = next((names[one.id] for one in scheduled if one.function not in known), "")
        if other:
            raise NotCoveredError(
                f"`{other}`, a custom call that is not in the program: XLA has changed the payload of a call, or added "
                "one"
            )
        return OpaqueCalls(program=calls, optimized=scheduled, kernels=tuple(kernels))
    except NotCoveredError as error:
        return OpaqueCalls(kernels=tuple(kernels), not_covered=str(error))


def count_draws(optimized: HloModule) -> int:
    """Returns the number of runs, each with another set of opaque functions. A schedule without branches needs one run.
    With branches there are several, because a wrong predicate need not take the wrong branch in every run.
    """
    return _DRAWS if any(one.opcode == "conditional" for one in optimized.instructions) else 1


def replay_opaquely(
    programs: Programs, arguments: Sequence[Array], calls: OpaqueCalls, cuts: Cuts = NO_CUTS
) -> OpaqueReplay:
    """Replays both modules in f64 with opaque functions in place of custom calls. An opaque function is a stand-in that
    reads and writes the same buffers as the call. Returns the record, which names an operation if replay does not cover
    it.

    arguments: whole arrays in the program's own types, one for each input in order.
    """
    started = perf_counter()
    try:
        if calls.not_covered:
            raise NotCoveredError(calls.not_covered)
        with np.errstate(all="ignore"):
            record = _compare(_Runs(programs, arguments, calls, cuts), cuts)
            for number in range(1, count_draws(programs.optimized)):
                other = _Runs(programs, arguments, calls, cuts, salt=f"{number} ", signed=number % 2 == 1)
                record = _join(record, _compare(other, cuts))
    except NotCoveredError as error:
        record = OpaqueReplay(state=ReplayState.NOT_COVERED, reason=str(error))
    return replace(record, kernels=calls.kernels, seconds=perf_counter() - started)


class _Runs:
    """The three runs of a case, and the schedule in isolated memory, which runs when it is first needed."""

    def __init__(
        self,
        programs: Programs,
        arguments: Sequence[Array],
        calls: OpaqueCalls,
        cuts: Cuts,
        *,
        salt: str = "",
        signed: bool = False,
    ) -> None:
        self.programs, self._calls, self._cuts, self._salt, self.signed = programs, calls, cuts, salt, signed
        self._products = RememberedProducts(REMEMBERED_PRODUCTS)
        self._optimized = widen_module(programs.optimized)
        program = widen_module(programs.program)
        arguments = [widen_array(argument) for argument in arguments]
        self._shards = split_arguments(programs.signature, arguments)
        names = programs.signature.outputs
        self.intended, self.stale = (
            dict(zip(names, results, strict=True))
            for results in run_intended_and_stale(
                program,
                arguments,
                OpaqueRunner(calls={one.id: one for one in calls.program}, salt=salt, signed=signed),
                devices=programs.signature.devices,
                most=cuts.program,
                multiply=self._products.multiply,
            )
        )
        self.actual, schedule = self._run_schedule(isolated=False)
        self.unreached = schedule.list_unreached()

    def _run_schedule(self, *, isolated: bool) -> tuple[Mapping[str, Outputs], WideScheduleRunner]:
        schedule = WideScheduleRunner(
            module=self._optimized,
            buffers=self.programs.buffers,
            kernels=OpaqueRunner(
                calls={one.id: one for one in self._calls.optimized},
                isolated=isolated,
                salt=self._salt,
                signed=self.signed,
            ),
            devices=self.programs.signature.devices,
            most=self._cuts.optimized,
            multiply=self._products.multiply,
            original=self.programs.optimized,
        )
        return run_schedule(schedule, self.programs.signature, self._shards), schedule

    @cached_property
    def isolated(self) -> Mapping[str, Outputs]:
        """Returns the outputs of the schedule when it runs with functions that leave their operands unchanged."""
        return self._run_schedule(isolated=True)[0]

    def compare(self, name: str, tolerance: float) -> OutputNumbers:
        """Compares one output with its intended and its stale values. If devices have different copies of the output,
        the copy that is furthest from the intended values counts.
        """
        intended, stale = self.intended[name], self.stale[name]
        found = [compare_output(copy, intended, stale, tolerance=tolerance) for copy in self.actual[name]]
        return max(found, key=lambda one: rank_error(one.error))

    def measure_isolated(self, name: str) -> float:
        """Returns the largest error of the output in isolated memory, where kernels leave their operands unchanged. The
        error is relative to the stale prediction; if there are several copies of the output, the largest error counts.
        """
        return max([compute_error(copy, self.stale[name]) for copy in self.isolated[name]], key=rank_error)


def _compare(runs: _Runs, cuts: Cuts) -> OpaqueReplay:
    originals = _restore_types(runs)
    most = compute_tolerances(runs.programs, originals)
    outputs: dict[str, OutputNumbers] = {}
    reason = ""
    for name in runs.actual:
        numbers = runs.compare(name, min(LEAST, most[name]))
        if numbers.attribution not in {Attribution.FRESH, Attribution.UNDECIDED}:
            moved, limit = runs.measure_isolated(name), most[name] if numbers.tolerance else 0.0
            numbers = runs.compare(name, min(max(LEAST, _CALIBRATION * moved), most[name]))
            if numbers.attribution is Attribution.LOSSY:
                numbers = replace(numbers, attribution=Attribution.NEITHER)
            small = min(max(_NOISE, _SHARE * most[name]), _NEAR * numbers.distance)
            if runs.signed:
                small = max(small, _NEAR_ZERO * numbers.distance)
            if numbers.attribution is Attribution.NEITHER and numbers.error <= small:
                numbers = replace(numbers, attribution=Attribution.UNDECIDED)
                reason = (
                    reason
                    or f"schedule and program order differ by {numbers.error:.0e} in `{name}`: rounding may explain it"
                )
            if numbers.attribution.is_wrong and not moved <= limit and (moved < FAR or cuts.loops):
                numbers = replace(numbers, attribution=Attribution.UNDECIDED)
                reason = reason or (
                    f"program and schedule compute different values of `{name}` even if no call overwrites its operands"
                )
        if numbers.attribution is Attribution.UNDECIDED and not reason:
            reason = (
                f"`{name}` is not finite in program order, or has the same values with and without the hidden writes"
            )
        outputs[name] = numbers
    return OpaqueReplay(
        state=ReplayState.DONE, reason=reason, outputs=outputs, unreached=runs.unreached, cut=cuts.loops
    )


def _join(one: OpaqueReplay, two: OpaqueReplay) -> OpaqueReplay:
    """Returns the record of two runs with other functions: an output that is wrong in one of them is wrong."""
    outputs = {name: max((numbers, two.outputs[name]), key=_rank) for name, numbers in one.outputs.items()}
    is_open = any(numbers.attribution is Attribution.UNDECIDED for numbers in outputs.values())
    return replace(
        one,
        outputs=outputs,
        unreached=tuple([name for name in one.unreached if name in two.unreached]),
        reason=(one.reason or two.reason) if is_open else "",
    )


def _rank(numbers: OutputNumbers) -> tuple[bool, bool, float]:
    """Returns a key by which numbers of an output that show more come later."""
    return numbers.attribution.is_wrong, numbers.attribution is not Attribution.UNDECIDED, numbers.distance


def _restore_types(runs: _Runs) -> dict[str, Array]:
    """Returns the intended outputs in the types that the program gives them, of which only the types matter."""
    shapes = [shape for _, shape in iterate_leaf_shapes(runs.programs.program.entry.root.shape)]
    return {
        name: np.empty(0, get_dtype(shape)) for name, shape in zip(runs.programs.signature.outputs, shapes, strict=True)
    }
