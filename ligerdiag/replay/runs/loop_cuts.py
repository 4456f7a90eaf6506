"""Finds loops that the program as written and its schedule run equally often, and cuts both short in the same way.

Such a loop of the program counts by 1 from a constant to a constant, and nothing else ends it. Its counterparts are the
loops of the schedule that have its tag, the number that identifies an operation of the program; there are several if
XLA inlined the enclosing computation several times. XLA must report for each of them the same number of iterations as
in the program. So a loop that XLA unrolled, peeled, rotated or removed is not shared, nor is one whose number of
iterations depends on data.

A loop that is cut short runs only its first iterations, in the program and in the schedule. The rest of the program
sees the results of these iterations. So the shortened program differs from the original one, but program order, the
stale prediction (program order without hidden writes) and the schedule all compute the same shortened program.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import is_tuple
from ligerdiag.model.findings import CutLoop

KEPT_ITERATIONS = 2
"""Number of iterations that a loop runs if it is cut short; the second one sees the results of the first."""

_SAME_VALUE = having(Trait.KEEPS_SCALAR)


def find_trip_count(module: HloModule, loop: HloInstruction) -> int | None:
    """Returns the number of iterations of a `while`. It is XLA's own count, or follows from a condition `i < constant`.
    Returns None if it is unknown.
    """
    known = _parse_known_count(loop.proto.backend_config)
    return known if known is not None else _read_condition(module, loop)


def find_longest_loop(module: HloModule) -> int:
    """Returns the largest known number of iterations of a loop in the module. Returns 1 if no number is known."""
    return max([find_trip_count(module, loop) or 1 for loop in _list_loops(module)], default=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedLoop:
    """A loop of the program together with its counterparts in the schedule. All of them have the same number of
    iterations.
    """

    loop: HloInstruction
    scheduled: tuple[HloInstruction, ...]
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The loops to cut short. `program` and `optimized`, one for each module, map the id of a `while` to the most
    iterations that it may run.
    """

    program: Mapping[int, int] = field(default_factory=dict[int, int])
    optimized: Mapping[int, int] = field(default_factory=dict[int, int])
    loops: tuple[CutLoop, ...] = ()


NO_CUTS = Cuts()


def find_shared_loops(program: HloModule, optimized: HloModule) -> tuple[SharedLoop, ...]:
    """Returns the loops that the program and the schedule run equally often."""
    by_tag: dict[int, list[HloInstruction]] = {}
    for scheduled in _list_loops(optimized):
        if path := optimized.find_tag_path(scheduled):
            by_tag.setdefault(path[-1], []).append(scheduled)
    found: list[SharedLoop] = []
    for loop in _list_loops(program):
        path, count = program.find_tag_path(loop), _read_condition(program, loop)
        same = by_tag.get(path[-1], []) if path else []
        if count is None or not same or not _counts_by_one(program, loop):
            continue
        if all(_parse_known_count(one.proto.backend_config) == count for one in same):
            found.append(SharedLoop(loop=loop, scheduled=tuple(same), iterations=count))
    return tuple(found)


def cut_loops(program: HloModule, loops: Iterable[SharedLoop]) -> Cuts:
    """Cuts each of these loops to its first `KEPT_ITERATIONS` iterations. A shorter loop stays whole."""
    cut = [loop for loop in loops if loop.iterations > KEPT_ITERATIONS]
    return Cuts(
        program={one.loop.id: KEPT_ITERATIONS for one in cut},
        optimized={scheduled.id: KEPT_ITERATIONS for one in cut for scheduled in one.scheduled},
        loops=tuple([
            CutLoop(
                instruction=one.loop.name,
                line=find_user_line(program, one.loop),
                ran=KEPT_ITERATIONS,
                iterations=one.iterations,
            )
            for one in cut
        ]),
    )  # fmt: skip


def cut_named_loops(program: HloModule, optimized: HloModule, names: Sequence[str]) -> Cuts:
    """Cuts the program's loops with these names short. Raises ArtifactError for a loop that the program and the
    schedule do not run equally often.
    """
    if not names:
        return NO_CUTS
    loops = {one.loop.name: one for one in find_shared_loops(program, optimized)}
    if missing := [name for name in names if name not in loops]:
        raise ArtifactError(f"the program and the schedule do not run a loop `{missing[0]}` equally often")
    return cut_loops(program, [loops[name] for name in names])


def _list_loops(module: HloModule) -> list[HloInstruction]:
    return [one for one in module.instructions if one.opcode == "while"]


def _parse_known_count(config: bytes) -> int | None:
    """Parses XLA's count of iterations from a loop's backend_config, a JSON object; None if there is none."""
    try:
        fields: object = json.loads(config)
        for name in ("known_trip_count", "n"):
            fields = cast(dict[str, object], fields)[name]
        count = int(cast(str, fields))
    except (ValueError, KeyError, TypeError):
        return None
    return max(count, 0)


def _find_counter(module: HloModule, loop: HloInstruction) -> tuple[int, HloInstruction] | None:
    """Returns (number of the element of the loop's state that a condition `i < limit` tests, the limit); None for other
    conditions.
    """
    compare = _see_through(module.computations[loop.called_computations[1]].root)
    if compare.opcode != "compare" or compare.proto.comparison_direction != "LT" or len(compare.operands) != 2:
        return None
    counter, limit = (_see_through(operand) for operand in compare.operands)
    if counter.opcode != "get-tuple-element" or counter.operands[0].opcode != "parameter":
        return None
    return counter.proto.tuple_index, limit


def _read_condition(module: HloModule, loop: HloInstruction) -> int | None:
    found = _find_counter(module, loop)
    last = None if found is None else _read_constant(found[1])
    start = _see_through(loop.operands[0])
    if found is None or last is None or start.opcode != "tuple" or found[0] >= len(start.operands):
        return None
    first = _read_constant(_see_through(start.operands[found[0]]))
    return None if first is None else max(last - first, 0)


def _counts_by_one(module: HloModule, loop: HloInstruction) -> bool:
    found, body = _find_counter(module, loop), module.computations[loop.called_computations[0]]
    root = _see_through(body.root)
    if found is None or root.opcode != "tuple" or found[0] >= len(root.operands):
        return False
    following = _see_through(root.operands[found[0]])
    if following.opcode != "add":
        return False
    parts = [_see_through(operand) for operand in following.operands]
    counted = [
        one.opcode == "get-tuple-element"
        and one.operands[0].opcode == "parameter"
        and one.proto.tuple_index == found[0]
        for one in parts
    ]
    return any(counted) and any(_read_constant(one) == 1 for one in parts)


def _see_through(instruction: HloInstruction) -> HloInstruction:
    """Returns the instruction that computes the value, looking through barriers, tuples and other operations that pass
    on a scalar.
    """
    while True:
        if instruction.opcode in _SAME_VALUE:
            instruction = instruction.operands[0]
        elif instruction.opcode == "get-tuple-element":
            whole = _see_through(instruction.operands[0])
            if whole.opcode != "tuple" or instruction.proto.tuple_index >= len(whole.operands):
                return instruction
            instruction = whole.operands[instruction.proto.tuple_index]
        else:
            return instruction


def _read_constant(instruction: HloInstruction) -> int | None:
    """Returns the value of a constant integer scalar; None for any other instruction."""
    literal = instruction.proto.literal
    if instruction.opcode != "constant" or is_tuple(instruction.shape) or instruction.shape.dimensions:
        return None
    for values in (literal.s32s, literal.s64s, literal.u32s, literal.u64s):
        if len(values) == 1:
            return values[0]
    return None
