"""Replays one case: runs it three times on the same arguments, drawn as the case says, and compares the three values of
each output.

- Program order runs the program as its author wrote it. Its outputs are the intended ones.
- Isolated memory is program order again, with kernels that leave their operands unchanged. Its outputs are the stale
  ones.
- The schedule runs on its own bytes, those of the buffer assignment. Its outputs are the actual ones.

If a case has a `reference`, a function that computes the outputs independently, its outputs are compared with those of
program order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf, isnan
from pathlib import Path
from time import perf_counter

import numpy as np

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.call_records import Placement
from ligerdiag.errors import ArtifactError, LigerdiagError
from ligerdiag.hlo.aliasing import find_buffer_fault
from ligerdiag.hlo.buffers import BufferAssignment, name_hits, share_parameters
from ligerdiag.hlo.module import HloModule, is_tagged
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import TOKEN, is_tuple
from ligerdiag.model.findings import FAR, Attribution, OrderNumbers, OutputNumbers, Replay, ReplayState
from ligerdiag.replay.ops.dtypes import count_different, get_dtype
from ligerdiag.replay.ops.products import multiply
from ligerdiag.replay.ops.remembered_products import RememberedProducts
from ligerdiag.replay.ops.scope import Array, Multiply, NotCoveredError
from ligerdiag.replay.runs.attribution import compare_output, compute_error, compute_tolerance, rank_error
from ligerdiag.replay.runs.kernel_memo import REMEMBERED_BYTES, REMEMBERED_PRODUCTS, IsolatedKernels, RememberedKernels
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.launch_reach import describe_launches
from ligerdiag.replay.runs.loop_cuts import NO_CUTS, Cuts, cut_named_loops
from ligerdiag.replay.runs.orders import OrderRunner, try_orders
from ligerdiag.replay.runs.program import (
    Kernels,
    NanWatch,
    describe_first_nan,
    needs_explanation,
    run_intended_and_stale,
    run_program,
)
from ligerdiag.replay.runs.rounding import (
    is_overwritten,
    judge_rounded,
    measure_rounding,
    measure_workarounds,
    needs_rounding,
)
from ligerdiag.replay.runs.schedule import ScheduleRunner
from ligerdiag.replay.runs.shards import check_replicas, find_other_copies, join_shards, take_shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The inputs and outputs of a program, and how they are placed on devices."""

    inputs: tuple[str, ...]
    """Names of the inputs, in the order of `input_placements`."""
    outputs: tuple[str, ...]
    input_placements: tuple[Placement, ...]
    output_placements: tuple[Placement, ...]
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Programs:
    """Both modules of one compile: the program as written and its schedule."""

    program: HloModule
    optimized: HloModule
    buffers: BufferAssignment
    signature: Signature


type Outputs = tuple[Array, ...]
"""The distinct copies of one output, each a whole array: first the copy that JAX would show, then the copy of each
device on which the bits differ from it.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaseRuns:
    """The results of the three runs of a case, by output name."""

    intended: Mapping[str, Array]
    """Outputs of the program as written, in program order."""
    stale: Mapping[str, Array]
    """Outputs of program order in isolated memory, where kernels leave their operands unchanged."""
    actual: Mapping[str, Outputs]
    """Outputs of the schedule on the bytes of its buffer assignment; see `Outputs` for an output of which devices have
    different copies.
    """
    again: Mapping[str, Outputs]
    """Outputs of a second execution of the schedule on the same arguments, with the constants as the first one left them;
    empty if the first one left all constants unchanged.
    """
    changed_inputs: Mapping[str, float]
    """Maps the name of each overwritten argument that was not donated to the share of its elements that changed."""
    unreached: tuple[str, ...]
    """Names of the instructions of the schedule that the runs do not test: those that did not run, and those whose errors
    need not show in the outputs; see `Replay.unreached`.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaseInputs:
    """The arguments of a case, and the outputs of its reference. Cases with equal arguments and references share this
    object.
    """

    arguments: tuple[Array, ...]
    find_reference: Callable[[], Mapping[str, Array] | None]
    """A function that returns the outputs of the case's reference by name, computed once; None if the case has no
    reference.
    """
    products: RememberedProducts = field(default_factory=lambda: RememberedProducts(REMEMBERED_PRODUCTS))
    """Remembers the large matrix products of all programs that run on these arguments."""


def replay_case(
    artifact: Artifact,
    inputs: CaseInputs,
    *,
    rows: bool,
    cut: Sequence[str] = (),
    modules: Mapping[str, Path] | None = None,
    orders: int = 0,
    orders_seconds: float = inf,
) -> Replay:
    """Replays a case from its artifact, the directory with the results of its compile. Returns the record of the
    replay. If replay does not cover an operation, the record names it.

    rows: whether to count fresh and stale rows. cut: names of the program's loops to cut short; the reference is then
    ignored, because it computes the whole program. modules: see `KernelRunner`. orders: number of further legal orders
    of its instructions in which the schedule runs; none begins after `orders_seconds`. Raises LigerdiagError if the
    artifact cannot be read or its modules cannot run at all.
    """
    started = perf_counter()
    programs = load_programs(artifact)
    cuts = cut_named_loops(programs.program, programs.optimized, cut)
    reference = inputs.find_reference() if not cut else None
    try:
        with np.errstate(all="ignore"):
            record, intended = compare_runs(
                programs,
                inputs.arguments,
                KernelRunner(modules=modules),
                rows=rows,
                cuts=cuts,
                multiply=inputs.products.multiply,
            )
            if reference is not None:
                record = _judge_reference(record, intended, reference)
                record = _settle_reference(record, intended, programs, inputs.arguments, KernelRunner(modules=modules))
    except NotCoveredError as error:
        return Replay(state=ReplayState.NOT_COVERED, reason=str(error), seconds=perf_counter() - started)
    if orders:
        with np.errstate(all="ignore"):
            tried = try_other_orders(
                programs,
                inputs.arguments,
                KernelRunner(check_seconds=0.0, modules=modules),
                orders,
                seconds=orders_seconds,
                cuts=cuts,
                multiply=inputs.products.multiply,
            )
        record = replace(record, orders=tried)
    return replace(record, seconds=perf_counter() - started)


def load_programs(artifact: Artifact, *, checks_buffers: bool = True) -> Programs:
    """Reads the program and the schedule of an artifact. Raises ArtifactError if they cannot be read or contradict each
    other, and NotCoveredError if replay cannot run them.

    checks_buffers: whether to refuse a buffer assignment that contradicts the schedule. False is for callers that only
    run the program.
    """
    if not artifact.as_written.stat().st_size:
        raise NotCoveredError("a program that jaxlib could not translate to HLO")
    program, _ = load_hlo(artifact.as_written)
    optimized, buffers = load_hlo(artifact.optimized)
    if buffers is None or not optimized.is_scheduled:
        raise ArtifactError(f"`{artifact.optimized}` holds no schedule or no buffer assignment")
    if checks_buffers and (fault := find_buffer_fault(optimized, buffers)):
        raise ArtifactError(f"the buffer assignment of `{artifact.optimized}` is inconsistent: {fault}")
    if not is_tagged(program):
        raise NotCoveredError("a program in which some operations lack ligerdiag's tag, so that their order is unknown")
    check_replicas(optimized)
    for module in (program, optimized):
        if len(module.entry.parameters) != len(artifact.provenance.inputs):
            raise NotCoveredError("a program that has ordered effects, or whose constants are hoisted to arguments")
    where = artifact.provenance
    if len(where.output_placements) != len(where.outputs):
        raise NotCoveredError(
            "a program for which this version of XLA does not report how the outputs are placed on devices"
        )
    signature = Signature(
        inputs=where.inputs,
        outputs=where.outputs,
        input_placements=where.input_placements,
        output_placements=where.output_placements,
        devices=where.devices,
    )
    buffers = share_parameters(buffers, optimized, where.list_shared_parameters())
    return Programs(program=program, optimized=optimized, buffers=buffers, signature=signature)


def run_schedule(
    schedule: ScheduleRunner, signature: Signature, shards: Sequence[Sequence[Array]]
) -> Mapping[str, Outputs]:
    """Runs the schedule and returns the arrays of each output by name. The first is the whole output; one more whole
    array follows for each device whose copy differs in bits.

    shards: each device's shards of the inputs.
    """
    results = schedule.execute(shards)
    found: dict[str, Outputs] = {}
    for number, name in enumerate(signature.outputs):
        copies, placement = [one[number] for one in results], signature.output_placements[number]
        found[name] = (join_shards(copies, placement), *find_other_copies(copies, placement))
    return found


def split_arguments(signature: Signature, arguments: Sequence[Array]) -> list[tuple[Array, ...]]:
    """Splits the arguments into each device's shards and returns the shards device by device.

    arguments: whole arrays, one for each input in order.
    """
    return [
        tuple([take_shard(a, p, device) for a, p in zip(arguments, signature.input_placements, strict=True)])
        for device in range(signature.devices)
    ]


def compute_tolerances(programs: Programs, outputs: Mapping[str, Array]) -> dict[str, float]:
    """Returns, for each output by name, the relative error that rounding explains. The narrowest dtype of the program
    and the output decides.
    """
    dtypes = {
        get_dtype(i.shape)
        for c in programs.program.computations.values()
        for i in c.instructions
        if not is_tuple(i.shape) and i.shape.element_type != TOKEN
    }
    return {name: compute_tolerance([*dtypes, array.dtype]) for name, array in outputs.items()}


def try_other_orders(
    programs: Programs,
    arguments: Sequence[Array],
    runner: KernelRunner,
    count: int,
    *,
    seconds: float = inf,
    cuts: Cuts = NO_CUTS,
    multiply: Multiply = multiply,
) -> OrderNumbers:
    """Runs the schedule in `count` further legal orders (see `runs.orders`) and returns the outputs whose values
    change.

    seconds: time after which no new order begins. If replay does not cover the schedule, the result says so.
    """
    signature = programs.signature
    shards = split_arguments(signature, arguments)
    try:
        schedule = OrderRunner(
            module=programs.optimized,
            buffers=programs.buffers,
            kernels=RememberedKernels(runner, REMEMBERED_BYTES),
            devices=signature.devices,
            most=cuts.optimized,
            multiply=multiply,
        )
        return try_orders(schedule, lambda one: run_schedule(one, signature, shards), count, seconds)
    except NotCoveredError as error:
        return OrderNumbers(not_covered=str(error))


def replay_programs(
    programs: Programs,
    arguments: Sequence[Array],
    runner: KernelRunner,
    cuts: Cuts = NO_CUTS,
    multiply: Multiply = multiply,
) -> CaseRuns:
    """Runs the program in program order and in isolated memory, and runs the schedule. Returns the outputs of all three
    runs. In isolated memory, kernels leave their operands unchanged. Raises NotCoveredError if replay does not cover an
    operation.

    arguments: whole arrays, one for each input of the program in order.
    """
    signature = programs.signature
    kernels = RememberedKernels(runner, REMEMBERED_BYTES)
    intended, stale = run_program_order(programs, arguments, kernels, cuts, multiply)
    schedule = ScheduleRunner(
        module=programs.optimized,
        buffers=programs.buffers,
        kernels=kernels,
        devices=signature.devices,
        most=cuts.optimized,
        multiply=multiply,
    )
    constants, shards = schedule.read_constants(), split_arguments(signature, arguments)
    runner.execution = 1
    actual = run_schedule(schedule, signature, shards)
    changed = _find_changed_inputs(schedule, programs.optimized, signature.inputs, shards)
    again: Mapping[str, Outputs] = {}
    if count_changed(constants, schedule.read_constants())[0]:
        runner.execution = 2
        again = run_schedule(schedule, signature, shards)
        runner.execution = 1
    return CaseRuns(
        intended=intended,
        stale=stale,
        actual=actual,
        again=again,
        changed_inputs=changed,
        unreached=schedule.list_unreached(),
    )


def run_program_order(
    programs: Programs,
    arguments: Sequence[Array],
    kernels: Kernels,
    cuts: Cuts = NO_CUTS,
    multiply: Multiply = multiply,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Runs the program in program order twice, the second time with kernels that leave their operands unchanged.
    Returns the outputs of both runs by name. Raises NotCoveredError if replay does not cover an operation.

    arguments: whole arrays, one for each input of the program in order.
    """
    written, isolated = run_intended_and_stale(
        programs.program,
        arguments,
        kernels,
        devices=programs.signature.devices,
        most=cuts.program,
        multiply=multiply,
    )
    names = programs.signature.outputs
    return dict(zip(names, written, strict=True)), dict(zip(names, isolated, strict=True))


def compare_runs(
    programs: Programs,
    arguments: Sequence[Array],
    runner: KernelRunner,
    *,
    rows: bool,
    cuts: Cuts = NO_CUTS,
    multiply: Multiply = multiply,
) -> tuple[Replay, Mapping[str, Array]]:
    """Runs the program in program order and in isolated memory, runs the schedule, and compares the outputs. In
    isolated memory, kernels leave their operands unchanged. Raises NotCoveredError if replay does not cover an
    operation.

    Returns (the record of the replay, the outputs of program order by name). rows: whether to count fresh and stale
    rows.
    """
    setup = _Setup(programs=programs, arguments=arguments, runner=runner, cuts=cuts, multiply=multiply)
    runs = replay_programs(programs, arguments, runner, cuts, multiply)
    tolerances = compute_tolerances(programs, runs.intended)
    numbers = _compare(runs, tolerances, rows=rows)
    launches = describe_launches(
        name_hits(runner.numbers(), programs.optimized, programs.buffers),
        programs.optimized,
        runner,
        setup.run_schedule_with,
    )
    widen = cache(lambda: setup.measure_rounding(runs.intended, tolerances))
    reason = _explain_nan(setup) if needs_explanation(numbers, runs.intended) else ""
    if cuts.loops:
        numbers, unexplained = _judge_cut_loops(numbers, runs.stale, setup)
        reason = reason or unexplained
    elif names := [name for name, one in numbers.items() if needs_rounding(one)]:
        found = widen()
        again = _compare(runs, {name: found[name] for name in names}, rows=rows)
        numbers |= {name: judge_rounded(numbers[name], one, tolerances[name]) for name, one in again.items()}
        undecided = [name for name in names if numbers[name].attribution is Attribution.UNDECIDED]
        if undecided and not reason:
            error = f"{found[undecided[0]]:.1g}"
            reason = f"the rounding errors of `{undecided[0]}` add up to {error} of its value even in program order"
    if not cuts.loops:
        numbers |= _find_overwritten(numbers, runs, widen, setup)
    rounded = measure_workarounds(
        programs.program,
        arguments,
        runner,
        runs.intended,
        devices=programs.signature.devices,
        most=cuts.program,
        multiply=multiply,
    )
    for name, error in rounded.items():
        if numbers[name].attribution is Attribution.FRESH and error > numbers[name].tolerance:
            numbers[name] = replace(numbers[name], attribution=Attribution.LOSSY)
    record = Replay(
        state=ReplayState.DONE,
        reason=reason,
        outputs=numbers,
        rounded=rounded,
        changed_inputs=runs.changed_inputs,
        second_run=_find_differences(runs.actual, runs.again, tolerances),
        launches=launches,
        unreached=runs.unreached,
        cut=cuts.loops,
    )
    return record, runs.intended


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Setup:
    """The inputs of a comparison, kept so that its runs can be repeated."""

    programs: Programs
    arguments: Sequence[Array]
    runner: KernelRunner
    cuts: Cuts
    multiply: Multiply

    def run_schedule_with(self, kernels: Kernels) -> Mapping[str, Outputs]:
        """Runs the schedule on its own bytes, with these kernels, and returns its outputs by name."""
        programs = self.programs
        schedule = ScheduleRunner(
            module=programs.optimized,
            buffers=programs.buffers,
            kernels=kernels,
            devices=programs.signature.devices,
            most=self.cuts.optimized,
            multiply=self.multiply,
        )
        return run_schedule(schedule, programs.signature, split_arguments(programs.signature, self.arguments))

    def run_isolated(self) -> Mapping[str, Outputs]:
        """Runs the schedule on its own bytes with kernels that leave their operands unchanged. Returns its outputs by
        name.
        """
        return self.run_schedule_with(IsolatedKernels(self.runner))

    def measure_rounding(self, intended: Mapping[str, Array], tolerances: Mapping[str, float]) -> dict[str, float]:
        """Returns the tolerance of each output by name. A tolerance grows if the roundings of program order exceed it;
        see `rounding.measure_rounding`.
        """
        devices = self.programs.signature.devices
        return measure_rounding(
            self.programs.program, self.arguments, self.runner, intended, tolerances, devices=devices
        )


def _judge_cut_loops(
    numbers: Mapping[str, OutputNumbers], stale: Mapping[str, Array], setup: _Setup
) -> tuple[dict[str, OutputNumbers], str]:
    """Returns (the numbers, in which an output is made undecided if its numbers may come only from cutting loops short;
    a message about the first of these outputs, empty if there are none).

    If a shortened schedule gives the intended or the stale numbers of the shortened program, the cut did no harm. Other
    numbers may come from the cut: XLA may rely on all iterations, for instance if it uses their number after the loop.
    So the schedule runs again with kernels that leave their operands unchanged and then has to give the stale numbers;
    an output for which it does not is undecided.
    """
    found = dict(numbers)
    unexplained = [name for name, one in numbers.items() if one.attribution is Attribution.NEITHER]
    if not unexplained:
        return found, ""
    isolated = setup.run_isolated()
    changed = [n for n in unexplained if not compute_error(isolated[n][0], stale[n]) <= numbers[n].tolerance]
    for name in changed:
        found[name] = replace(found[name], attribution=Attribution.UNDECIDED)
    return (
        found,
        f"`{changed[0]}` may be wrong only because loops were cut short: `--full` runs all iterations"
        if changed
        else "",
    )


def _find_overwritten(
    numbers: Mapping[str, OutputNumbers], runs: CaseRuns, widen: Callable[[], Mapping[str, float]], setup: _Setup
) -> dict[str, OutputNumbers]:
    """Returns corrected numbers for the outputs that look lossy but are wrong, because one term among many is stale.

    The error of these outputs exceeds the roundings of program order. With kernels that leave their operands unchanged,
    the schedule's error is within these roundings, so the hidden writes make the difference. widen: returns the
    tolerances that `measure_rounding` found.
    """
    names = [n for n, one in numbers.items() if one.attribution is Attribution.LOSSY and one.error > one.tolerance]
    if not names:
        return {}
    widened = widen()
    names = [name for name in names if numbers[name].error > widened[name]]
    if not names:
        return {}
    isolated = setup.run_isolated()
    return {
        name: replace(numbers[name], attribution=Attribution.NEITHER)
        for name in names
        if is_overwritten(
            (runs.actual[name][0], runs.intended[name]),
            (isolated[name][0], runs.stale[name]),
            tolerance=widened[name],
        )
    }


def _compare(runs: CaseRuns, tolerances: Mapping[str, float], *, rows: bool) -> dict[str, OutputNumbers]:
    """Compares the outputs that are named in `tolerances`, and no others, with their intended and stale values. If
    devices have different copies of an output, the copy that is furthest from the intended values counts.
    """
    return {
        name: max(
            [
                compare_output(copy, runs.intended[name], runs.stale[name], tolerance=tolerances[name], rows=rows)
                for copy in copies
            ],
            key=_get_badness,
        )
        for name, copies in runs.actual.items()
        if name in tolerances
    }


def _explain_nan(setup: _Setup) -> str:
    """Runs the program again and returns a line that describes the origin of its first NaN."""
    watch = NanWatch()
    program, signature = setup.programs.program, setup.programs.signature
    run_program(program, setup.arguments, setup.runner, devices=signature.devices, watch=watch, most=setup.cuts.program)
    inputs = dict(zip(signature.inputs, setup.arguments, strict=True))
    first = watch.first
    is_unwritten = first is not None and first.opcode == "custom-call" and setup.runner.is_reading_unwritten(first)
    return describe_first_nan(program, first, inputs, is_unwritten=is_unwritten)


def _find_changed_inputs(
    schedule: ScheduleRunner, module: HloModule, inputs: Sequence[str], shards: Sequence[Sequence[Array]]
) -> dict[str, float]:
    donated = {entry.parameter_number for entry in module.input_output_alias.entries}
    changed: dict[str, float] = {}
    for number, name in enumerate(inputs):
        if number in donated:
            continue
        after = [schedule.read_parameter(device, number) for device in range(len(shards))]
        differing, total = count_changed([one[number] for one in shards], after)
        if differing:
            changed[name] = differing / total
    return changed


def _find_differences(
    one: Mapping[str, Outputs], two: Mapping[str, Outputs], tolerances: Mapping[str, float]
) -> dict[str, float]:
    found = {name: compute_error(copies[0], one[name][0]) for name, copies in two.items()}
    return {name: error for name, error in found.items() if not error <= tolerances[name]}


def _is_finite(array: Array) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


def _get_badness(numbers: OutputNumbers) -> float:
    return rank_error(numbers.error)


def _judge_reference(record: Replay, intended: Mapping[str, Array], reference: Mapping[str, Array]) -> Replay:
    missing = intended.keys() - reference.keys()
    if missing:
        raise LigerdiagError(
            f"the case's reference does not return the output {', '.join(f'`{name}`' for name in sorted(missing))}"
        )
    errors: dict[str, float] = {}
    tolerances: dict[str, float] = {}
    outputs: dict[str, OutputNumbers] = {}
    for name, numbers in record.outputs.items():
        wanted = np.asarray(reference[name])
        if wanted.shape != intended[name].shape:
            shapes = f"{list(wanted.shape)}, but that of the program has {list(intended[name].shape)}"
            raise LigerdiagError(f"the output `{name}` of the case's reference has the shape {shapes}")
        error = compute_error(intended[name], wanted)
        if isnan(error) and _is_finite(wanted):
            error = inf  # program order is not finite, but the reference is
        errors[name], tolerances[name] = error, numbers.tolerance
        lossy = numbers.attribution is Attribution.FRESH and numbers.tolerance < error < FAR
        outputs[name] = replace(numbers, attribution=Attribution.LOSSY) if lossy else numbers
    return replace(record, outputs=outputs, reference=errors, reference_tolerance=tolerances)


def _settle_reference(
    record: Replay,
    intended: Mapping[str, Array],
    programs: Programs,
    arguments: Sequence[Array],
    runner: KernelRunner,
) -> Replay:
    """Measures the roundings of each output that is further from its reference than its dtypes explain; returns the
    corrected record.

    If roundings alone move the output of program order as far as the reference is away (for example, if it is the sine
    of 5e9), the reference does not show that the output is wrong: the tolerance for the reference becomes the size of
    these roundings. Otherwise the output has not just lost digits: program and reference compute different values
    (LD016). If the schedule computes the program's value, the output is fresh.
    """
    off = [name for name, error in record.reference.items() if error > record.reference_tolerance[name]]
    doubted = [name for name in off if record.reference[name] > _REFERENCE_ROUNDING * record.rounded.get(name, 0.0)]
    if not doubted:
        return record
    tolerances = {name: numbers.tolerance for name, numbers in record.outputs.items()}
    found = measure_rounding(
        programs.program, arguments, runner, intended, tolerances, devices=programs.signature.devices
    )
    outputs, wider = dict(record.outputs), dict(record.reference_tolerance)
    for name in doubted:
        numbers = outputs[name]
        if record.reference[name] <= found[name]:
            wider[name] = found[name]
        elif numbers.attribution is Attribution.LOSSY and numbers.error <= numbers.tolerance:
            outputs[name] = replace(numbers, attribution=Attribution.FRESH)
    return replace(record, outputs=outputs, reference_tolerance=wider)


_REFERENCE_ROUNDING = 2.0
"""An output may differ from its reference by this multiple of the error that the rounding of a workaround (`x + s - s`)
causes, because the reference is rounded, too.
"""


def count_changed(before: Sequence[Array], after: Sequence[Array]) -> tuple[int, int]:
    """Compares the arrays before and after bit by bit. Returns (the number of elements that differ, the number of all
    elements).
    """
    changed = total = 0
    for old, new in zip(before, after, strict=True):
        total += old.size
        changed += count_different(old, new)
    return changed, total
