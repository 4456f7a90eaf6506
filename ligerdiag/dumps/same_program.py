"""Checks whether two modules are one program, before and after XLA optimized it: files of two programs may have
matching names.

Two modules of one program have one name, and one number in the process that compiled it, if the files give a number.
Their entry computations have equally many parameters, and equally many arrays as results. Each of these keeps its
element type and rank, and no dimension gets longer: the partitioner makes them shorter. Modules that agree in all of
this may still be two programs; tags, operands and kernels say more (see `analysis.tag_trust`).
"""

from collections.abc import Iterator, Sequence

from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.shape import DTYPE_NAMES, iterate_leaf_shapes
from ligerdiag.hlo.xla_pb2 import ShapeProto


def describe_difference(program: HloModule, optimized: HloModule) -> str:
    """Returns the evidence that the two are different programs; empty if there is none."""
    return next(_list_differences(program, optimized), "")


def _list_differences(program: HloModule, optimized: HloModule) -> Iterator[str]:
    if program.name != optimized.name:
        yield f"one is called `{program.name}` and the other `{optimized.name}`"
    if program.number and optimized.number and program.number != optimized.number:
        yield f"one is module {program.number} of its process and the other module {optimized.number}"
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
            yield f"one has {len(one)} arrays as {what}s and the other {len(other)}"
        for number, (written, left) in enumerate(zip(one, other, strict=False)):
            if not _may_be_of(left, written):
                yield f"{what} {number} is {_describe(written)} in one and {_describe(left)} in the other"


def _list_arrays(shapes: Sequence[ShapeProto]) -> list[ShapeProto]:
    return [leaf for shape in shapes for _, leaf in iterate_leaf_shapes(shape)]


def _may_be_of(left: ShapeProto, written: ShapeProto) -> bool:
    """Returns whether XLA may have made one shape of the other."""
    return (
        left.element_type == written.element_type
        and len(left.dimensions) == len(written.dimensions)
        and all(a <= b for a, b in zip(left.dimensions, written.dimensions, strict=True))
    )


def _describe(shape: ShapeProto) -> str:
    return f"{DTYPE_NAMES.get(shape.element_type, 'something')}[{','.join(map(str, shape.dimensions))}]"
