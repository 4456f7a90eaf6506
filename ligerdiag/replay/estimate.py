"""Estimates the time and memory of a replay from the modules alone.

A replay has three runs. Two of them, program order and isolated memory (where kernels leave their operands unchanged),
run the program as written once for all devices. The third one runs the schedule, the optimized module, on each device.
A matrix product costs its flops. Any other instruction costs a fixed amount and, unless it is a view, an element's time
for each element that it makes or reduces. Matrix products use all cores, other instructions one.

A loop's body counts once for each iteration. The number of iterations is the one that XLA states, or follows from a
condition `i < constant` whose `i` starts from a constant. If it is unknown, a loop of the program as written is assumed to
run as often as the longest loop of the optimized module, and a loop of the optimized module is assumed to run once. `notes`
lists these assumptions. A loop that is cut short counts only the iterations that are left. Of a conditional's branches only
the most expensive one counts.

Replay remembers the results of kernel launches. The two runs of the program launch each kernel on the same bytes, so a
launch counts once for both. In the schedule it counts again, because rounding differs. Devices that run a kernel on the
program's whole operand get the same bytes, so the launch counts once for all of them. Large matrix products are remembered
as well: if there is memory for all of them, a product counts once for both runs of the program, and again in the schedule.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.effects.call import carries_kernel
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.dataflow import is_custom_partitioning
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import DTYPE_NAMES, count_elements, is_tuple, render_shape
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.replay.ops.dtypes import get_dtype
from ligerdiag.replay.runs.kernel_memo import REMEMBERED_BYTES, REMEMBERED_PRODUCTS
from ligerdiag.replay.runs.launch import count_programs
from ligerdiag.replay.runs.loop_cuts import (
    NO_CUTS,
    Cuts,
    cut_loops,
    find_longest_loop,
    find_shared_loops,
    find_trip_count,
)
from ligerdiag.replay.runs.schedule import compute_sizes
from ligerdiag.text import count_of

FLOPS = 60e9
"""Floating point operations per second and core. NumPy's f32 product on an EPYC core: 92e9 for 64x64, 41e9 for
1024x1024 while the machine was busy.
"""
ELEMENT_SECONDS = 1e-9
"""Seconds per element of f32 that NumPy computes: measured from 0.1 ns (add, in the cache) to 1.4 ns (exp, 8 million),
12 ns for a `where`.
"""
SORT_SECONDS = 1e-7
"""Seconds per sorted element."""
INSTRUCTION_SECONDS = 2e-5
"""Seconds per instruction, for reading its attributes and calling NumPy on a few numbers."""
PROGRAM_SECONDS = 1e-5
"""Seconds per program of a kernel's grid when many small programs run as one batch; the batch itself costs a few
instructions.
"""
KERNEL_ELEMENT_SECONDS = 2.5e-8
"""Seconds per element of a kernel's operands and outputs: a cross entropy of 26 to 412 million elements took 12 to 24
ns of a processor for each.
"""
LARGE_PRODUCT = 1 << 30
"""The fewest multiplications of a product that counts as remembered: neither the time nor the memory of smaller ones
matters.
"""
MOST_CUTS = 8
"""The most loops that a replay cuts short: each needs another estimate."""
LIVE_VALUES = 4
"""Number of the program's largest values that are assumed to be alive at once, in addition to its arguments."""

_VIEWS = having(Trait.VIEW)
_RUNS_ONCE = having(Trait.CALLEE_TAKES_OPERANDS)
_OVER_OPERANDS = having(Trait.REDUCES)
_SORTS = having(Trait.SORTS)

type KernelSeconds = Callable[[HloInstruction], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimated cost of a replay: wall-clock seconds and bytes of memory."""

    seconds: float
    bytes: int
    notes: tuple[str, ...] = ()
    """Assumptions of the estimate, one line each."""


def estimate(
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    *,
    kernel_seconds: KernelSeconds,
    devices: int,
    cores: int,
    cuts: Cuts = NO_CUTS,
) -> Estimate:
    """Returns the cost of a replay, which runs the program twice and its schedule once.

    kernel_seconds: returns the seconds that one launch of a kernel's custom call takes on one core. cores: number of
    cores that products use. cuts: loops that the replay cuts short.
    """
    notes: list[str] = []
    longest = find_longest_loop(optimized)
    written = _compute_costs(program, kernel_seconds, longest, notes, cuts.program)[program.entry.id]
    scheduled = _compute_costs(optimized, kernel_seconds, 1, notes, cuts.optimized)[optimized.entry.id]
    product_bytes = written.product_bytes + devices * scheduled.product_bytes
    launches = sum(written.kernels.values())
    launches += sum(s * (1 if key in written.kernels else devices) for key, s in scheduled.kernels.items())
    flops = 2 * written.flops + devices * scheduled.flops
    if product_bytes <= REMEMBERED_PRODUCTS:
        flops -= written.remembered_flops
    others = 2 * written.other_seconds + devices * scheduled.other_seconds
    remembered = min(written.kernel_bytes + devices * scheduled.kernel_bytes, REMEMBERED_BYTES)
    remembered += min(product_bytes, REMEMBERED_PRODUCTS)
    return Estimate(
        seconds=launches + flops / FLOPS / max(cores, 1) + others,
        bytes=devices * count_allocated_bytes(buffers) + count_live_bytes(program) + remembered,
        notes=tuple(notes),
    )


def estimate_artifact(artifact: Artifact, cores: int) -> Estimate:
    """Returns the cost of replaying an artifact, the directory with the results of a compile. Raises ArtifactError if
    the artifact cannot be read, NotCoveredError for an element type that NumPy cannot store.
    """
    program, _ = load_hlo(artifact.program)
    optimized, buffers = load_hlo(artifact.optimized)
    if buffers is None:
        raise ArtifactError(f"`{artifact.optimized}` holds no buffer assignment")
    return estimate(
        program,
        optimized,
        buffers,
        kernel_seconds=compute_kernel_seconds,
        devices=artifact.provenance.devices,
        cores=cores,
    )


def estimate_cuts(artifact: Artifact, cores: int) -> Iterator[tuple[Cuts, Estimate]]:
    """Yields the sets of `list_cuts`, loops that a replay may cut short, each with the cost of the shortened replay.
    Raises the errors of `estimate_artifact`.
    """
    if not artifact.as_written.stat().st_size:
        return
    program, _ = load_hlo(artifact.as_written)
    optimized, buffers = load_hlo(artifact.optimized)
    if buffers is None:
        raise ArtifactError(f"`{artifact.optimized}` holds no buffer assignment")
    devices = artifact.provenance.devices
    for cuts in list_cuts(program, optimized, compute_kernel_seconds):
        yield (
            cuts,
            estimate(
                program,
                optimized,
                buffers,
                kernel_seconds=compute_kernel_seconds,
                devices=devices,
                cores=cores,
                cuts=cuts,
            ),
        )


def compute_kernel_seconds(call: HloInstruction) -> float:
    """Returns the estimated seconds of one launch of a kernel on one core. A kernel with an unknown grid counts as a
    single program.
    """
    elements = sum(_count_elements(o.shape) for o in call.operands) + _count_elements(call.shape)
    return count_programs(call) * PROGRAM_SECONDS + elements * KERNEL_ELEMENT_SECONDS


def count_allocated_bytes(buffers: BufferAssignment) -> int:
    """Returns the bytes that the schedule's buffers take on one device."""
    return sum(compute_sizes(buffers).values())


@dataclass(slots=True)
class _Cost:
    """The cost of one execution of a computation on one core."""

    flops: float = 0.0
    other_seconds: float = 0.0
    """Seconds of all instructions except products and kernels."""
    kernels: dict[tuple[bytes, str], float] = field(default_factory=dict[tuple[bytes, str], float])
    """Maps (payload of a kernel call, shapes of its operands) to the total seconds of all launches that have both."""
    kernel_bytes: int = 0
    """Bytes of operands and outputs of all launches."""
    product_bytes: int = 0
    """Bytes that large products take in memory to be remembered: left operands and results. Right operands do not
    count, because they are mostly arguments.
    """
    remembered_flops: float = 0.0
    """Flops of the remembered products."""

    @property
    def seconds(self) -> float:
        return self.other_seconds + self.flops / FLOPS + sum(self.kernels.values())

    def add(self, other: "_Cost", times: int = 1) -> None:
        self.flops += times * other.flops
        self.other_seconds += times * other.other_seconds
        self.kernel_bytes += times * other.kernel_bytes
        self.product_bytes += times * other.product_bytes
        self.remembered_flops += times * other.remembered_flops
        for key, seconds in other.kernels.items():
            self.kernels[key] = self.kernels.get(key, 0.0) + times * seconds


def list_cuts(program: HloModule, optimized: HloModule, kernel_seconds: KernelSeconds) -> Iterator[Cuts]:
    """Yields sets of loops to cut short: first the most expensive loop alone, at last the `MOST_CUTS` most expensive
    loops.

    Only loops that the program and its schedule run equally often are cut. The cost of a loop includes that of its
    inner loops.
    """
    costs = _compute_costs(program, kernel_seconds, 1, [], {})
    loops = sorted(
        find_shared_loops(program, optimized),
        key=lambda one: one.iterations * costs[one.loop.called_computations[0]].seconds,
        reverse=True,
    )
    for number in range(1, min(len(loops), MOST_CUTS) + 1):
        cuts = cut_loops(program, loops[:number])
        if cuts.loops:
            yield cuts


def _compute_costs(
    module: HloModule,
    kernel_seconds: KernelSeconds,
    unknown_trips: int,
    notes: list[str],
    most: Mapping[int, int],
) -> dict[int, _Cost]:
    """Returns the cost of each computation, by id. Callees come before callers, so one pass suffices.

    unknown_trips: number of iterations assumed for a loop whose number of iterations is unknown; `notes` gets a line
    about each of these loops. most: maps the id of a loop that is cut short to the most iterations that it runs.
    """
    costs: dict[int, _Cost] = {}
    for computation in module.computations.values():
        cost = costs[computation.id] = _Cost()
        for instruction in computation.instructions:
            cost.other_seconds += INSTRUCTION_SECONDS
            called = instruction.called_computations
            match instruction.opcode:
                case opcode if opcode in _RUNS_ONCE:
                    cost.add(costs[called[0]])
                case "while":
                    trips = find_trip_count(module, instruction)
                    if trips is None:
                        trips = unknown_trips
                        notes.append(f"the loop `{instruction.name}` is assumed to run {count_of(trips, 'time')}")
                    trips = min(trips, most.get(instruction.id, trips))
                    cost.add(costs[called[0]], trips)
                    cost.add(costs[called[1]], trips + 1)
                case "conditional":
                    cost.add(max([costs[branch] for branch in called], key=lambda c: c.seconds))
                case "custom-call" if called and is_custom_partitioning(instruction):
                    cost.add(costs[called[0]])
                case "custom-call" if carries_kernel(instruction.proto.custom_call_target):
                    cost.add(_compute_kernel_cost(instruction, kernel_seconds))
                case _:
                    cost.add(_compute_opcode_cost(instruction))
    return costs


def _compute_kernel_cost(call: HloInstruction, kernel_seconds: KernelSeconds) -> _Cost:
    shapes = " ".join(render_shape(operand.shape) for operand in call.operands)
    size = sum(_count_bytes(operand.shape) for operand in call.operands) + _count_bytes(call.shape)
    return _Cost(kernels={(call.proto.backend_config, shapes): kernel_seconds(call)}, kernel_bytes=size)


def _compute_opcode_cost(instruction: HloInstruction) -> _Cost:
    opcode = instruction.opcode
    if opcode in _VIEWS:
        return _Cost()
    if opcode == "dot":
        return _compute_product_cost(instruction, count_flops(instruction))
    if is_call_with(instruction, CallTrait.MATRIX_PRODUCT):
        return _compute_product_cost(instruction, _count_gemm_flops(instruction))
    elements = _count_elements(instruction.shape)
    if opcode in _OVER_OPERANDS:
        elements += sum(_count_elements(operand.shape) for operand in instruction.operands)
    return _Cost(other_seconds=elements * (SORT_SECONDS if opcode in _SORTS else ELEMENT_SECONDS))


def _compute_product_cost(product: HloInstruction, flops: float) -> _Cost:
    if flops < 2 * LARGE_PRODUCT:
        return _Cost(flops=flops)
    result = product.shape.tuple_shapes[0] if is_tuple(product.shape) else product.shape
    size = _count_bytes(product.operands[0].shape) + _count_bytes(result)
    return _Cost(flops=flops, product_bytes=size, remembered_flops=flops)


def count_flops(dot: HloInstruction) -> float:
    """Returns the number of multiplications and additions of a `dot`."""
    left = dot.operands[0].shape.dimensions
    contracted = [left[d] for d in dot.proto.dot_dimension_numbers.lhs_contracting_dimensions if d < len(left)]
    return 2.0 * count_elements(dot.shape) * math.prod(contracted)


def _count_gemm_flops(call: HloInstruction) -> float:
    """Returns the flops of a library call that multiplies [m, k] by [k, n]; a batch of b such products counts as b^1.5
    products.

    For one product, the square root of the product of the three array sizes is m k n. The sizes are used because the
    contracted dimensions are in the backend_config, whose format changes between releases of XLA.
    """
    result = call.shape.tuple_shapes[0] if is_tuple(call.shape) else call.shape
    sizes = [count_elements(operand.shape) for operand in call.operands[:2]]
    return 2.0 * math.sqrt(math.prod(sizes) * count_elements(result))


def _count_elements(shape: ShapeProto) -> int:
    if is_tuple(shape):
        return sum(_count_elements(child) for child in shape.tuple_shapes)
    return count_elements(shape) if shape.element_type in DTYPE_NAMES else 0


def _count_bytes(shape: ShapeProto) -> int:
    if is_tuple(shape):
        return sum(_count_bytes(child) for child in shape.tuple_shapes)
    return count_elements(shape) * get_dtype(shape).itemsize if shape.element_type in DTYPE_NAMES else 0


def count_live_bytes(program: HloModule) -> int:
    """Estimates the bytes of the values that are alive at once. These are the arguments, the `LIVE_VALUES` largest
    values that the program computes, and the outputs of all three runs.
    """
    arguments = sum(_count_bytes(parameter.shape) for parameter in program.entry.parameters)
    values: list[int] = sorted(
        (
            _count_bytes(i.shape)
            for c in program.computations.values()
            for i in c.instructions
            if i.opcode not in _VIEWS and not is_tuple(i.shape)
        ),
        reverse=True,
    )
    return arguments + sum(values[:LIVE_VALUES]) + 3 * _count_bytes(program.entry.root.shape)
