"""Lists the collectives of a scheduled module, how often each runs, and how many bytes each device sends or receives."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import compute_byte_size, iterate_leaf_shapes
from ligerdiag.replay.estimate import find_trip_count

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")


@dataclass(frozen=True, slots=True)
class Traffic:
    """The collectives of one kind in one execution of the program.

    runs: how often they run. size: their bytes on one device; of each, the larger of operands and results.
    """

    runs: int
    size: int


def sum_collectives(module: HloModule) -> Mapping[str, Traffic]:
    """Returns the traffic by kind; a loop with an unknown number of iterations counts once."""
    runs: defaultdict[str, int] = defaultdict(int)
    sizes: defaultdict[str, int] = defaultdict(int)

    def walk(computation: HloComputation, times: int) -> None:
        for one in computation.instructions:
            kind = one.opcode.removesuffix("-start")
            if kind in KINDS:
                runs[kind] += times
                sizes[kind] += times * _measure(one, is_start=one.opcode.endswith("-start"))
            elif one.opcode != "fusion" and one.called_computations:
                inner = times * (find_trip_count(module, one) or 1) if one.opcode == "while" else times
                for callee in one.called_computations[:1] if one.opcode == "while" else one.called_computations:
                    walk(module.computations[callee], inner)

    walk(module.entry, 1)
    return {kind: Traffic(runs[kind], sizes[kind]) for kind in KINDS if kind in runs}


def _measure(instruction: HloInstruction, *, is_start: bool) -> int:
    given = sum(_sum_bytes(operand) for operand in instruction.operands)
    shown = _sum_bytes(instruction)
    both = is_start and instruction.opcode != "all-reduce-start"  # the shape of these includes the operands
    return max(given, shown - given if both else shown)


def _sum_bytes(instruction: HloInstruction) -> int:
    return sum(compute_byte_size(shape) or 0 for _, shape in iterate_leaf_shapes(instruction.shape))
