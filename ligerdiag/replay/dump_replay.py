"""Replays the modules of an XLA dump, which is untrusted input, on random arguments or on those that XLA wrote into a
file next to a module.

No Python code of the dumped program is imported. The program needs tags, the numbers of its operations that give their
order (see `analysis.provenance`). Each random argument has the default distribution of the arguments of a case, a
program that ligerdiag itself compiles (`Draw()`), but a seed of its own, because equal arguments hide errors. A dump
does not say how arrays are placed on several devices, so only modules for one device are replayed.

A dump contains the program only after MLIR has folded it. Folding may remove an operation, such as `* 1`, that kept a
value's contents from before a kernel's write apart from its contents after the write. For some values it is therefore
undecidable which contents autodiff meant. For others, autodiff surely meant the contents from before the write, but a
run in program order reads the contents after it. If an output depends on a value of either kind, a run in program order
need not compute the intended output, so the output is undecided.

If the estimated cost of a replay exceeds the bounds, its most expensive loops are cut short (see `runs.loop_cuts`); if
that does not suffice, the replay is refused before any argument is drawn. The caller has to end a replay that runs into
an endless loop. Kernels are read from files in which workers have stored their parsed Triton IR, because Triton's
parser, which is C++, is not run on untrusted input in this process.

XLA writes the arguments of one run of a module into a file next to the module's:

| file | content |
|---|---|
| module_0003.jit_step.snapshot.-1044628018.pb, …execution_0000.hlo_snapshot.pb | HloSnapshot (--xla_dump_hlo_snapshots) |
| module_0003.jit_step.execution_0000.hlo_unoptimized_snapshot.pb | see below (--xla_dump_hlo_unoptimized_snapshots) |

The second is an HloUnoptimizedSnapshot. Newer versions of XLA write its length, then the message without its literals,
then the literals one by one (xla/runtime/large_hlo_snapshot_serialization): 8 bytes, little endian, with the length of
a ShapeProto, the ShapeProto, and the elements in the order of its layout; booleans are packed, eight to a byte, the
first one lowest.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ligerdiag.artifacts.call_records import Placement
from ligerdiag.compile.cases.array_records import draw_values
from ligerdiag.dumps.content import unpack
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.aliasing import find_buffer_fault
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import is_shard_edge
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import TOKEN, count_elements, is_tuple, iterate_leaf_shapes, render_shape
from ligerdiag.hlo.xla_pb2 import HloInputs, HloSnapshot, HloUnoptimizedSnapshot, ShapeProto
from ligerdiag.model.case import Draw
from ligerdiag.model.findings import Replay, ReplayState, mark_undecided
from ligerdiag.replay.estimate import Estimate, compute_kernel_seconds, estimate, list_cuts
from ligerdiag.replay.ops.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.ops.movement import order_elements, parse_literal
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.replay_service import OVERRUN_FACTOR, SLACK_BYTES
from ligerdiag.replay.replay_worker import ALONE_SECONDS, Bounds, compute_available_bytes, refuse
from ligerdiag.replay.runs.case_run import Programs, Signature, compare_runs
from ligerdiag.replay.runs.collectives import COLLECTIVES
from ligerdiag.replay.runs.kernels import KernelRunner
from ligerdiag.replay.runs.launch import list_modules
from ligerdiag.replay.runs.loop_cuts import NO_CUTS, Cuts
from ligerdiag.replay.runs.shards import check_replicas
from ligerdiag.untrusted_files import MAXIMUM_FILE_BYTES, read_untrusted
from ligerdiag.workers.pool import count_cores

_NO_OPERATION = having(Trait.NO_OPERATION)
_LEAST_SECONDS = 60.0
"""Processor seconds that every replay of a dump may take, however low its estimate: estimates do not foresee
everything.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DumpPlan:
    """A planned replay of the modules of a dump, with the time and memory that it may take."""

    programs: Programs
    ambiguous: frozenset[str]
    """Names of the outputs whose intended value is unknown or differs from the value in program order."""
    sources: tuple[bytes, ...]
    """The Triton IR of all kernels that the two modules call, each once."""
    seconds: float
    """Processor seconds that the replay may take."""
    estimated_seconds: float
    estimated_bytes: int
    cuts: Cuts = NO_CUTS

    @property
    def memory(self) -> int:
        """Returns the bytes that the replay may take."""
        return 2 * self.estimated_bytes + SLACK_BYTES


def plan_dump(programs: Programs, bounds: Bounds, ambiguous: Collection[str] = ()) -> DumpPlan | Replay:
    """Plans a replay of the modules of a dump within the bounds. Returns the plan or, if replay does not cover the
    modules or they are too large, a record with the reason.

    ambiguous: names of the outputs whose intended value is unknown or differs from the value in program order.
    """
    try:
        expected, seconds = _estimate_dump(programs, NO_CUTS)
        _require_arguments(programs.program)
    except NotCoveredError as error:
        return Replay(state=ReplayState.NOT_COVERED, reason=str(error))
    available, used = compute_available_bytes(), NO_CUTS
    refused = refuse(expected.seconds, expected.bytes, bounds, available)
    if refused is not None and not bounds.full:
        for cuts in list_cuts(programs.program, programs.optimized, compute_kernel_seconds):
            shorter, shorter_seconds = _estimate_dump(programs, cuts)
            if refuse(shorter.seconds, shorter.bytes, bounds, available) is None:
                refused, expected, seconds, used = None, shorter, shorter_seconds, cuts
                break
    return refused or DumpPlan(
        programs=programs,
        cuts=used,
        ambiguous=frozenset(ambiguous),
        sources=tuple(
            dict.fromkeys(one for module in (programs.program, programs.optimized) for one in list_modules(module))
        ),
        seconds=seconds,
        estimated_seconds=expected.seconds,
        estimated_bytes=expected.bytes,
    )


def replay_dump(plan: DumpPlan, arguments: tuple[Array, ...], kernels: Mapping[str, Path]) -> Replay:
    """Replays the modules of a dump as planned and returns the record. If replay does not cover an operation, the
    record names the operation, and no error is raised.

    arguments: an array for each parameter of the program. kernels: maps the sha256 of the Triton IR of a kernel (see
    `DumpPlan.sources`) to a file with its parsed operations.
    """
    started = perf_counter()
    costs = {"estimated_seconds": plan.estimated_seconds, "estimated_bytes": plan.estimated_bytes}
    try:
        if any(sha256(source).hexdigest() not in kernels for source in plan.sources):
            raise NotCoveredError("a kernel whose Triton IR could not be read")
        with np.errstate(all="ignore"):
            runner = KernelRunner(modules=kernels)
            record, _ = compare_runs(plan.programs, arguments, runner, rows=False, cuts=plan.cuts)
    except NotCoveredError as error:
        record = Replay(state=ReplayState.NOT_COVERED, reason=str(error))
    outputs = mark_undecided(record.outputs, plan.ambiguous)
    return replace(record, outputs=outputs, seconds=perf_counter() - started, **costs)


def draw_parameters(program: HloModule, seed: int) -> tuple[Array, ...]:
    """Draws an array for each parameter of the program, each from a seed of its own. Raises NotCoveredError for a dtype
    that NumPy cannot store.
    """
    arrays: list[Any] = []
    for number, parameter in enumerate(program.entry.parameters):
        random = np.random.Generator(np.random.PCG64((seed, number)))
        arrays.append(draw_values(Draw(), random, get_dimensions(parameter.shape), get_dtype(parameter.shape)))
    return tuple(arrays)


def join_programs(
    program: HloModule, optimized: HloModule, buffers: BufferAssignment, output_names: tuple[str, ...]
) -> Programs:
    """Joins a dump's program and its schedule to one record. The program must have tags, and both must be for one
    device.

    output_names: a name for each output of the program. Raises ArtifactError if the two modules contradict each other,
    and NotCoveredError if replay cannot run them.
    """
    if not optimized.is_scheduled:
        raise ArtifactError(f"`{optimized.name}` holds no schedule")
    if fault := find_buffer_fault(optimized, buffers):
        raise ArtifactError(f"the buffer assignment of `{optimized.name}` is inconsistent: {fault}")
    if not program.tags or any(_needs_order(one) and one.id not in program.tags for one in program.instructions):
        raise NotCoveredError("a program in which some operations lack ligerdiag's tag, so that their order is unknown")
    _require_one_device(program, optimized)
    inputs = [parameter.shape for parameter in program.entry.parameters]
    outputs = [shape for _, shape in iterate_leaf_shapes(program.entry.root.shape)]
    for mine, theirs in (
        (inputs, [parameter.shape for parameter in optimized.entry.parameters]),
        (outputs, [shape for _, shape in iterate_leaf_shapes(optimized.entry.root.shape)]),
    ):
        if [_describe(shape) for shape in mine] != [_describe(shape) for shape in theirs]:
            raise NotCoveredError(
                "a program and an optimized module that differ in the shapes of their arguments or outputs"
            )
    if len(output_names) != len(outputs):
        raise ArtifactError(
            f"`{program.name}` has {len(outputs)} outputs, but {len(output_names)} output names are given"
        )
    signature = Signature(
        inputs=tuple([parameter.name for parameter in program.entry.parameters]),
        outputs=output_names,
        input_placements=tuple([_place_whole(shape) for shape in inputs]),
        output_placements=tuple([_place_whole(shape) for shape in outputs]),
        devices=1,
    )
    return Programs(program=program, optimized=optimized, buffers=buffers, signature=signature)


def _estimate_dump(programs: Programs, cuts: Cuts) -> tuple[Estimate, float]:
    """Returns (the estimated cost on the cores that the replay gets, the limit of its processor seconds, which is well
    above the estimated cost on one core).
    """
    expected, cores = _estimate(programs, 1, cuts), count_cores()
    seconds = max(_LEAST_SECONDS, OVERRUN_FACTOR * expected.seconds)
    if expected.seconds > ALONE_SECONDS and cores > 1:
        expected = _estimate(programs, cores, cuts)
    return expected, seconds


def _estimate(programs: Programs, cores: int, cuts: Cuts) -> Estimate:
    return estimate(
        programs.program,
        programs.optimized,
        programs.buffers,
        kernel_seconds=compute_kernel_seconds,
        devices=programs.signature.devices,
        cores=cores,
        cuts=cuts,
    )


def _require_arguments(program: HloModule) -> None:
    """Raises NotCoveredError if the program has a parameter that is not an array, or that NumPy cannot store."""
    for parameter in program.entry.parameters:
        _describe(parameter.shape)
        get_dtype(parameter.shape)


def _needs_order(instruction: HloInstruction) -> bool:
    """Returns whether the instruction needs a tag that gives its place in program order: it may read memory that a
    kernel overwrites, or overwrite memory that others read.
    """
    reads = any(operand.opcode != "constant" for operand in instruction.operands)
    return reads and instruction.opcode not in _NO_OPERATION


def _require_one_device(program: HloModule, optimized: HloModule) -> None:
    check_replicas(optimized)
    for module in (program, optimized):
        for instruction in module.instructions:
            if is_shard_edge(instruction) or instruction.opcode in COLLECTIVES or instruction.opcode == "partition-id":
                raise NotCoveredError(
                    "a program for several devices: a dump does not record how its arrays are placed on them"
                )


def _describe(shape: ShapeProto) -> tuple[int, tuple[int, ...]]:
    if is_tuple(shape) or shape.element_type == TOKEN:
        raise NotCoveredError(f"an argument or output that is not an array but {render_shape(shape)}")
    return shape.element_type, get_dimensions(shape)


def _place_whole(shape: ShapeProto) -> Placement:
    dimensions = get_dimensions(shape)
    return Placement(shape=dimensions, shards=(tuple([(0, size) for size in dimensions]),))


_UNOPTIMIZED = "hlo_unoptimized_snapshot"
_VERSION = 0
_LENGTH_BYTES = 8
_VARINT_BYTES = 10
_MAXIMUM_SHAPE_BYTES = 4096


def load_snapshot(path: Path, program: HloModule) -> tuple[Array, ...]:
    """Reads the arguments that XLA wrote into a file next to a module's. Returns an array for each parameter of the
    program. Raises ArtifactError if the file cannot be read or does not match the parameters.
    """
    shapes = [parameter.shape for parameter in program.entry.parameters]
    try:
        data = unpack(read_untrusted(path, MAXIMUM_FILE_BYTES))
        arrays = _parse_unoptimized(data, shapes) if _UNOPTIMIZED in path.name else _parse_snapshot(data, shapes)
    except ArtifactError as error:
        raise ArtifactError(f"cannot read the arguments in `{path.name}`: {error}") from error
    except DecodeError as error:
        raise ArtifactError(f"the arguments in `{path.name}` do not have a format that XLA writes") from error
    return arrays


def _parse_snapshot(data: bytes, shapes: list[ShapeProto]) -> tuple[Array, ...]:
    snapshot = HloSnapshot.FromString(data)
    return _parse_literals(snapshot, shapes)


def _parse_unoptimized(data: bytes, shapes: list[ShapeProto]) -> tuple[Array, ...]:
    start, end = _find_metadata(data)
    if end > len(data):
        return _parse_literals(_get_partition(HloUnoptimizedSnapshot.FromString(data)), shapes)
    try:
        snapshot = HloUnoptimizedSnapshot.FromString(memoryview(data)[start:end].tobytes())
    except DecodeError:  # an older version, which does not begin with a length
        return _parse_literals(_get_partition(HloUnoptimizedSnapshot.FromString(data)), shapes)
    inputs = _get_partition(snapshot)
    _require_count(len(inputs.arguments_descriptors), shapes)
    if snapshot.version > _VERSION or any(one.version > _VERSION for one in inputs.arguments_descriptors):
        raise ArtifactError("the snapshot has an unknown format version")
    sizes = [one.argument_size_bytes for one in inputs.arguments_descriptors]
    if sum(sizes) > len(data) - end:
        raise ArtifactError("the file is cut off before the end of its arguments")
    return tuple(_iterate_arrays(memoryview(data)[end:], sizes, shapes))


def _find_metadata(data: bytes) -> tuple[int, int]:
    """Returns (start, end) of the message that contains everything but the arguments' elements. It is the first one in
    the data, after its length, a variable-length integer of protobuf. If the data do not begin with such a length, the
    returned end lies beyond them.
    """
    length = 0
    for position, byte in enumerate(data[:_VARINT_BYTES]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return position + 1, position + 1 + length
    return 0, len(data) + 1


def _get_partition(snapshot: HloUnoptimizedSnapshot) -> HloInputs:
    if len(snapshot.partitions) != 1:
        raise ArtifactError(f"the snapshot is for {len(snapshot.partitions)} devices, but the program is for one")
    return snapshot.partitions[0]


def _parse_literals(inputs: HloInputs | HloSnapshot, shapes: list[ShapeProto]) -> tuple[Array, ...]:
    _require_count(len(inputs.arguments), shapes)
    arrays: list[Array] = []
    for number, (literal, shape) in enumerate(zip(inputs.arguments, shapes, strict=True)):
        _require_shape(number, literal.shape, shape)
        arrays.append(np.ascontiguousarray(parse_literal(literal)))
    return tuple(arrays)


def _iterate_arrays(data: memoryview, sizes: list[int], shapes: list[ShapeProto]) -> Iterator[Array]:
    start = 0
    for number, (size, shape) in enumerate(zip(sizes, shapes, strict=True)):
        literal = data[start : start + size]
        start += size
        length = int.from_bytes(literal[:_LENGTH_BYTES], "little")
        if length > _MAXIMUM_SHAPE_BYTES:
            raise ArtifactError(f"argument {number} has no readable shape")
        own = ShapeProto.FromString(literal[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes())
        _require_shape(number, own, shape)
        yield _read_array(number, literal[_LENGTH_BYTES + length :], own)


def _read_array(number: int, data: memoryview, shape: ShapeProto) -> Array:
    dtype, elements = get_dtype(shape), count_elements(shape)
    is_packed = dtype == np.bool_
    expected = math.ceil(elements / 8) if is_packed else elements * dtype.itemsize
    if len(data) != expected:
        raise ArtifactError(f"argument {number}, {render_shape(shape)}, has {len(data)} bytes, not {expected}")
    raw: Any = np.frombuffer(data, np.uint8)
    flat = np.unpackbits(raw, count=elements, bitorder="little").view(np.bool_) if is_packed else raw.view(dtype)
    return np.ascontiguousarray(order_elements(flat, shape, get_dimensions(shape)))


def _require_count(count: int, shapes: list[ShapeProto]) -> None:
    if count != len(shapes):
        raise ArtifactError(f"the file holds {count} arguments, but the program takes {len(shapes)}")


def _require_shape(number: int, own: ShapeProto, wanted: ShapeProto) -> None:
    """Raises ArtifactError if an argument does not have the shape that the program takes, or has an invalid layout.

    number: the argument's number, for the message. own: its shape in the file. wanted: the shape of the parameter.
    """
    order = list(own.layout.minor_to_major)
    if order and sorted(order) != list(range(len(own.dimensions))):
        raise ArtifactError(f"argument {number} has a layout that does not fit its shape")
    found, expected = ((one.element_type, get_dimensions(one), is_tuple(one)) for one in (own, wanted))
    if found != expected:
        raise ArtifactError(f"argument {number} is {render_shape(own)}, but the program takes {render_shape(wanted)}")
