"""The modules of a stranger's dump on numbers: arguments are drawn by shape and dtype, nothing is imported or run.

1. The program needs tags, which give its order (see `analysis.correspondence.provenance`).
2. Arguments are drawn as `check` draws those of a case without draws of its own: each from the same seed.
3. A dump does not say how arrays lie on several devices: only modules for one device are replayed.
4. A dump holds the program as MLIR folded it: of some values it cannot be told whether autodiff meant them from before or
   after a kernel. Program order decides nothing there: the numbers of such an output are undecided.
5. What is estimated above the bounds is refused before anything is drawn. An endless loop is the caller's to end.
"""

from collections.abc import Collection
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from ligerdiag.artifacts.call_records import Placement
from ligerdiag.compile.cases.arguments import draw_values
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.aliasing import find_buffer_fault
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import TOKEN, is_tuple, iterate_leaf_shapes, render_shape
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.model.case import Draw
from ligerdiag.model.findings import Attribution, Replay, ReplayState
from ligerdiag.replay.interpreter.dtypes import get_dimensions, get_dtype
from ligerdiag.replay.interpreter.scope import Array, NotCoveredError
from ligerdiag.replay.runs.case_run import Programs, Signature, compare_runs
from ligerdiag.replay.runs.collectives import COLLECTIVES
from ligerdiag.replay.runs.shards import EDGES, check_replicas
from ligerdiag.replay.service.estimate import compute_kernel_seconds, estimate
from ligerdiag.replay.service.job import Bounds, refuse
from ligerdiag.replay.service.service import compute_available_bytes

_NO_OPERATION = having(Trait.NO_OPERATION)


def replay_dump(
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    output_names: tuple[str, ...],
    *,
    bounds: Bounds,
    ambiguous: Collection[str],
    seed: int = 0,
) -> Replay:
    """Replays the modules of a dump. Limits of coverage and of size are in the record and are not raised.

    program: tagged. ambiguous: names of the outputs whose intended value is not known, (4). seed: of every argument.
    Raises ArtifactError where the modules do not fit each other.
    """
    started = perf_counter()
    try:
        programs = _join_programs(program, optimized, buffers, output_names)
        expected = estimate(program, optimized, buffers, kernel_seconds=compute_kernel_seconds, devices=1, cores=1)
        refused = refuse(expected.seconds, expected.bytes, bounds, compute_available_bytes())
        if refused is not None:
            return refused
        with np.errstate(all="ignore"):
            record, _ = compare_runs(programs, draw_parameters(program, seed), rows=False)
    except NotCoveredError as error:
        return Replay(state=ReplayState.NOT_COVERED, reason=str(error), seconds=perf_counter() - started)
    outputs = {
        name: replace(one, attribution=Attribution.UNDECIDED) if name in ambiguous else one
        for name, one in record.outputs.items()
    }
    return replace(
        record,
        outputs=outputs,
        seconds=perf_counter() - started,
        estimated_seconds=expected.seconds,
        estimated_bytes=expected.bytes,
    )


def draw_parameters(program: HloModule, seed: int) -> tuple[Array, ...]:
    """Returns an array for each parameter. Raises NotCoveredError for a dtype that NumPy cannot hold."""
    arrays: list[Any] = []
    for parameter in program.entry.parameters:
        random = np.random.Generator(np.random.PCG64(seed))
        arrays.append(draw_values(Draw(), random, get_dimensions(parameter.shape), get_dtype(parameter.shape)))
    return tuple(arrays)


def _join_programs(
    program: HloModule, optimized: HloModule, buffers: BufferAssignment, output_names: tuple[str, ...]
) -> Programs:
    if not optimized.is_scheduled:
        raise ArtifactError(f"`{optimized.name}` holds no schedule")
    if fault := find_buffer_fault(optimized, buffers):
        raise ArtifactError(f"the buffer assignment of `{optimized.name}` does not hold: {fault}")
    if not program.tags or any(_needs_order(one) and one.id not in program.tags for one in program.instructions):
        raise NotCoveredError("a program whose operations are not all tagged: their order is not known")
    _require_one_device(program, optimized)
    inputs = [parameter.shape for parameter in program.entry.parameters]
    outputs = [shape for _, shape in iterate_leaf_shapes(program.entry.root.shape)]
    for mine, theirs in (
        (inputs, [parameter.shape for parameter in optimized.entry.parameters]),
        (outputs, [shape for _, shape in iterate_leaf_shapes(optimized.entry.root.shape)]),
    ):
        if [_describe(shape) for shape in mine] != [_describe(shape) for shape in theirs]:
            raise NotCoveredError("an optimized module that takes or returns other arrays than the program")
    if len(output_names) != len(outputs):
        raise ArtifactError(f"`{program.name}` has {len(outputs)} outputs, not {len(output_names)}")
    signature = Signature(
        inputs=tuple([parameter.name for parameter in program.entry.parameters]),
        outputs=output_names,
        input_placements=tuple([_place_whole(shape) for shape in inputs]),
        output_placements=tuple([_place_whole(shape) for shape in outputs]),
        devices=1,
    )
    return Programs(program=program, optimized=optimized, buffers=buffers, signature=signature)


def _needs_order(instruction: HloInstruction) -> bool:
    """Returns whether it matters when it runs: it reads memory that a kernel may overwrite, or it may overwrite some."""
    return bool(instruction.operands) and instruction.opcode not in _NO_OPERATION


def _require_one_device(program: HloModule, optimized: HloModule) -> None:
    check_replicas(optimized)
    for module in (program, optimized):
        for instruction in module.instructions:
            is_edge = instruction.opcode == "custom-call" and instruction.proto.custom_call_target in EDGES
            if is_edge or instruction.opcode in COLLECTIVES or instruction.opcode == "partition-id":
                raise NotCoveredError("a program for several devices: a dump does not say where its arrays lie")


def _describe(shape: ShapeProto) -> tuple[int, tuple[int, ...]]:
    if is_tuple(shape) or shape.element_type == TOKEN:
        raise NotCoveredError(f"an argument or output {render_shape(shape)}")
    return shape.element_type, get_dimensions(shape)


def _place_whole(shape: ShapeProto) -> Placement:
    dimensions = get_dimensions(shape)
    return Placement(shape=dimensions, shards=(tuple([(0, size) for size in dimensions]),))
