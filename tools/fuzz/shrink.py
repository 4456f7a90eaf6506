"""Finds smaller programs that still show the same contradiction.

`list_smaller` removes one thing: results, the devices, a step with its blocks, or one thing in a block. A reader of the
outputs of a removed step reads an earlier value of the same kind. `is_valid` says whether a program still follows the
rules of `programs`; otherwise its reference would be wrong. `shrink` tries the programs of a round together, and
continues with the smallest one that still shows the contradiction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tools.fuzz.programs import KERNELS, ArrayKind, Body, RandomProgram, Step, Variable

ROUND = 16
"""Programs per round."""
ROUNDS = 14
_CALLS = ("loss", "squash", "layer", "ref_loop")
"""Words whose functions call a kernel."""


def shrink(
    program: RandomProgram, find_shown: Callable[[Sequence[RandomProgram]], Sequence[RandomProgram]]
) -> RandomProgram:
    """Returns the smallest program found that shows the same. find_shown: returns those of some programs that do."""
    skipped: set[RandomProgram] = set()
    for _ in range(ROUNDS):
        smaller = [one for one in list_smaller(program) if one not in skipped][:ROUND]
        if not smaller:
            break
        numbered = [replace(one, variant=number) for number, one in enumerate(smaller, 1)]
        shown = find_shown(numbered)
        if shown:
            best = min(shown, key=measure)
            program = replace(best, variant=0)
        else:
            skipped.update(smaller)
    return program


def measure(program: RandomProgram) -> tuple[int, int, int]:
    """Returns the size of a program: steps, results, and devices times scale."""
    return sum(1 for _ in _walk(program.block)), len(program.block.results), program.devices * program.scale


def list_smaller(program: RandomProgram) -> tuple[RandomProgram, ...]:
    """Returns the valid programs with one thing less, smallest first."""
    found: dict[RandomProgram, None] = {}
    for one in _make_smaller(program):
        if one != program and is_valid(one):
            found[replace(one, variant=0)] = None
    return tuple(sorted(found, key=measure))


def is_valid(program: RandomProgram) -> bool:
    """Returns whether every value that is read exists, and every value that is overwritten may be."""
    needs_mesh = any(step.word in ("shard_map", "annotate") for step in _walk(program.block))
    if needs_mesh and program.devices == 1:
        return False
    writes = any(step.word in KERNELS or step.word in _CALLS for step in _walk(program.block))
    return writes and bool(program.block.results) and _is_block_valid(program.block, frozenset(), passed=False)


def _is_block_valid(block: Body, around: frozenset[Variable], *, passed: bool) -> bool:
    own = set[Variable]() if passed else set(block.parameters)
    given = set(block.parameters) if passed else set[Variable]()
    for step in block.steps:
        readable = around | own | given
        if not all(value in readable for value in step.inputs):
            return False
        if step.word in KERNELS:
            written = step.inputs if step.word == "turn" else step.inputs[:1]
            if len(set(step.inputs)) < len(step.inputs) or not all(value in own | given for value in written):
                return False
            if step.mode != "hidden" and any(value in given for value in step.inputs):
                return False
        if step.word == "call" and not (set(step.inputs) <= own | given and len(set(step.inputs)) == len(step.inputs)):
            return False
        if step.word == "loss" and not set(step.inputs) <= own - set(block.parameters):
            return False
        inner = frozenset[Variable]() if step.word == "shard_map" else frozenset(readable)
        if step.word == "call":  # inside, its operands have the names of its parameters
            inner -= set(step.inputs)
        if not all(_is_block_valid(one, inner, passed=step.word == "call") for one in step.blocks):
            return False
        own |= set(step.outputs)
    return set(block.results) <= own


def _walk(block: Body) -> Iterator[Step]:
    for step in block.steps:
        yield step
        for inner in step.blocks:
            yield from _walk(inner)


def _make_smaller(program: RandomProgram) -> Iterator[RandomProgram]:
    block = program.block
    if len(block.results) > 1:
        for value in block.results:
            yield replace(program, block=replace(block, results=(value,)))
    if program.devices > 1:
        yield replace(program, devices=1, layouts=("whole",) * len(block.parameters))
        yield replace(program, layouts=("whole",) * len(block.parameters))
    if program.scale > 1:
        yield replace(program, scale=1)
    if program.donated:
        yield replace(program, donated=())
    for count in range(1, len(block.steps)):
        yield replace(program, block=_end_early(block, count))
    for smaller in _shrink_block(block):
        yield replace(program, block=smaller)


def _end_early(block: Body, count: int) -> Body:
    """Returns the block's first steps, with the old results that exist by then, else the last value."""
    steps = block.steps[:count]
    there = {value for step in steps for value in step.outputs} | set(block.parameters)
    kept = tuple(value for value in block.results if value in there)
    return replace(block, steps=steps, results=kept or steps[-1].outputs[-1:] or block.parameters[:1])


def _shrink_block(block: Body) -> Iterator[Body]:
    """Yields the block without one of its steps, or with a smaller one."""
    for position, step in enumerate(block.steps):
        before, after = block.steps[:position], block.steps[position + 1 :]
        known = [*block.parameters, *(value for one in before for value in one.outputs)]
        read = {*block.results, *_find_read(after)}
        instead = {value: _find_other(value.kind, step.inputs, known) for value in step.outputs if value in read}
        if all(other is not None for other in instead.values()):
            names = {value: other for value, other in instead.items() if other is not None}
            rest = tuple(_rename_step(one, names) for one in after)
            results = tuple(names.get(value, value) for value in block.results)
            yield replace(block, steps=(*before, *rest), results=results)
        if step.mode not in ("hidden", "") and step.word in KERNELS:
            yield replace(block, steps=(*before, replace(step, mode="hidden"), *after))
        for number, inner in enumerate(step.blocks):
            for smaller in _shrink_block(inner):
                blocks = (*step.blocks[:number], smaller, *step.blocks[number + 1 :])
                yield replace(block, steps=(*before, replace(step, blocks=blocks), *after))


def _find_read(steps: Sequence[Step]) -> Iterator[Variable]:
    for step in steps:
        yield from step.inputs
        for block in step.blocks:
            yield from (*block.results, *_find_read(block.steps))


def _find_other(kind: ArrayKind, inputs: Sequence[Variable], known: Sequence[Variable]) -> Variable | None:
    """Returns an operand of that kind that the block knows, else the last such value; None if there is none."""
    fitting = [value for value in known if value.kind == kind]
    return next((value for value in inputs if value in fitting), fitting[-1] if fitting else None)


def _rename_step(step: Step, names: Mapping[Variable, Variable]) -> Step:
    blocks = tuple(
        replace(
            block,
            steps=tuple(_rename_step(one, names) for one in block.steps),
            results=tuple(names.get(value, value) for value in block.results),
        )
        for block in step.blocks
    )
    return replace(step, inputs=tuple(names.get(value, value) for value in step.inputs), blocks=blocks)
