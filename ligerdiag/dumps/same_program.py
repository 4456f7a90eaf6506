"""Decides whether two modules are of one program: one from before the optimizations and an optimized one.

A folder may hold files of several runs under one name: XLA numbers the modules of each process from the start, and a run
that ends in the middle leaves a new module from before the optimizations beside an old one from after them. Two modules of
one program have the same name, and the same number in the process that compiled it, if the files give a number. Their entry
computations have equally many parameters, and equally many arrays as results. Each of these keeps its element type and
rank, and no dimension gets longer: the partitioner makes them shorter. XLA copies places in the source (file and line)
from operation to operation, so each place of the optimized module is one of the program. Modules that agree in all of this
may still be of different programs; tags, operands and kernels say more (see `analysis.tag_trust`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from ligerdiag.dumps.content import Form, compute_form
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloModule, iterate_frames_of
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.shape import DTYPE_NAMES, iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import OpMetadata, ShapeProto, StackFrameIndexProto
from ligerdiag.text import count_of

type SourcePlace = tuple[str, int]
"""A file and a line of the source."""


def describe_difference(program: HloModule, optimized: HloModule) -> str:
    """Returns the evidence that the module before optimizations is of another program than the optimized module; empty if
    there is none.
    """
    return next(_list_differences(program, optimized), "")


def _list_differences(program: HloModule, optimized: HloModule) -> Iterator[str]:
    if program.name != optimized.name:
        yield f"it is called `{program.name}`, but the optimized module is called `{optimized.name}`"
    if program.number and optimized.number and program.number != optimized.number:
        yield f"it is module {program.number} of its process, but the optimized module is module {optimized.number}"
    ends = (
        (
            "parameter",
            [one.shape for one in program.entry.parameters],
            [one.shape for one in optimized.entry.parameters],
        ),
        ("output", [program.entry.root.shape], [optimized.entry.root.shape]),
    )
    for what, before, after in ends:
        one, other = _list_arrays(before), _list_arrays(after)
        if len(one) != len(other):
            yield f"its {what}s hold {count_of(len(one), 'array')}, but the optimized module's {what}s hold {len(other)}"
        for number, (written, left) in enumerate(zip(one, other, strict=False)):
            if not _may_become(written, left):
                shapes = f"{_describe_shape(written)}, but in the optimized module it is {_describe_shape(left)}"
                yield f"its {what} {number} is {shapes}"
    file, line = _find_foreign_place(program, optimized)
    if file:
        place = f"`{file.rpartition('/')[2]}:{line}`"
        yield f"none of its operations is from {place}, where the optimized module has one"


def _list_arrays(shapes: Sequence[ShapeProto]) -> list[ShapeProto]:
    return [leaf for shape in shapes for _, leaf in iterate_leaf_shapes(shape)]


def _may_become(written: ShapeProto, left: ShapeProto) -> bool:
    """Returns whether XLA may have made the shape `left` out of the shape `written`."""
    return (
        left.element_type == written.element_type
        and len(left.dimensions) == len(written.dimensions)
        and all(a <= b for a, b in zip(left.dimensions, written.dimensions, strict=True))
    )


def _describe_shape(shape: ShapeProto) -> str:
    return f"{DTYPE_NAMES.get(shape.element_type, 'something')}[{','.join(map(str, shape.dimensions))}]"


def _find_foreign_place(program: HloModule, optimized: HloModule) -> SourcePlace:
    """Returns a place in the source that the optimized module names and the program does not; ("", 0) if there is none, or
    if one of them names no place, as text without metadata.
    """
    known, named = (
        list_places(one.stack_frames, [instruction.proto.metadata for instruction in one.instructions])
        for one in (program, optimized)
    )
    return min(named - known, default=("", 0)) if known else ("", 0)


def list_places(frames: StackFrameIndexProto, metadata: Iterable[OpMetadata]) -> set[SourcePlace]:
    """Returns the innermost place of each instruction that has one. frames: the stack frames of the module. metadata: that
    of its instructions.
    """
    distinct = {one.stack_frame_id or (one.source_file, one.source_line): one for one in metadata}
    return {place for one in distinct.values() if (place := find_place(frames, one)) is not None}


def find_place(frames: StackFrameIndexProto, metadata: OpMetadata) -> SourcePlace | None:
    """Returns the innermost place of an instruction; None if it has none."""
    line = next(iterate_frames_of(frames, metadata), None)
    return (line.file, line.line) if line is not None and line.file and line.line > 0 else None


def list_names(data: bytes) -> Iterator[str]:
    """Yields the names of the instructions in a module's text, or in its protobuf; nothing if it is neither."""
    try:
        if compute_form(data) is Form.TEXT:
            yield from (found[1].decode(errors="replace") for found in _NAMES.finditer(data))
        else:
            yield from (one.name for one in parse_hlo(data)[0].instructions)
    except ArtifactError:
        return


_NAMES = re.compile(rb"^[ \t]+(?:ROOT )?%?([\w.\-]+) = ", re.MULTILINE)
