"""Random programs depend on nothing but their seed, agree with their reference, and shrink to valid programs."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from tools.fuzz.drawing import draw_program
from tools.fuzz.programs import CONSTRUCTS, DTYPES, KERNELS, MODES, Body, RandomProgram, Step
from tools.fuzz.shrink import is_valid, list_smaller, measure, shrink
from tools.fuzz.source import OPERATIONS, render_case_file


@cache
def draw_programs() -> tuple[RandomProgram, ...]:
    return tuple(map(draw_program, range(400)))


def walk(block: Body) -> Iterator[Step]:
    for step in block.steps:
        yield step
        for inner in step.blocks:
            yield from walk(inner)


def test_a_seed_gives_one_program_and_other_seeds_give_others() -> None:
    assert tuple(map(draw_program, range(50))) == draw_programs()[:50]
    assert len({program.block for program in draw_programs()}) == len(draw_programs())


def test_a_few_hundred_programs_use_every_word() -> None:
    steps = [step for program in draw_programs() for step in walk(program.block)]
    words = {step.word for step in steps}
    assert {*OPERATIONS, *KERNELS, *CONSTRUCTS, "product", "annotate", "loss"} <= words
    assert {step.mode for step in steps if step.word in KERNELS} == set(MODES)
    assert {value.kind.dtype for step in steps if step.word in KERNELS for value in step.inputs} == set(DTYPES)
    assert {program.devices for program in draw_programs()} == {1, 2, 4, 8}
    assert {len(program.donated) for program in draw_programs()} >= {0, 1}


def test_a_program_overwrites_only_values_that_have_one_name() -> None:
    assert [program.seed for program in draw_programs() if not is_valid(program)] == []


def test_a_value_that_a_block_may_only_read_is_not_overwritten() -> None:
    """Tests the rule itself, on programs that break it."""
    calls = [p for p in draw_programs() if any(s.word == "call" for s in p.block.steps)]
    for program in calls[:20]:
        step = next(step for step in program.block.steps if step.word == "call")
        seen = replace(step.blocks[0], steps=(replace(_make_read(step), inputs=step.inputs[:1]), *step.blocks[0].steps))
        assert not is_valid(_replace_step(program, step, replace(step, blocks=(seen,))))


def test_a_file_of_programs_is_self_contained() -> None:
    """The file defines every function that it names, once, and no other."""
    text = render_case_file(draw_programs()[:40], "Programs.")
    tree = ast.parse(text)
    functions = Counter(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    assert set(functions.values()) == {1}
    assert sum(name.startswith("compute_") for name in functions) == 40
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {name for name in functions if name not in named} == set()
    assert {f"{word}_{form}" for word in KERNELS for form in ("kernel", "formula")} <= functions.keys()
    (one,) = [draw for draw in draw_programs() if draw.seed == 0]
    assert len(render_case_file([one], "One.")) < len(text) / 4


def test_every_removal_leaves_a_smaller_and_valid_program() -> None:
    for program in draw_programs()[:8]:
        smaller = list_smaller(program)
        assert smaller
        assert all(is_valid(one) for one in smaller)
        ast.parse(render_case_file([replace(one, variant=n) for n, one in enumerate(smaller[:8], 1)], "Smaller."))


def test_shrinking_keeps_the_contradiction_and_little_else() -> None:
    """A kernel in a loop whose result the program returns plays the part of the contradiction."""

    def has_loop_with_kernel(program: RandomProgram) -> bool:
        return any(s.word == "scan" and any(i.word in KERNELS for i in s.blocks[0].steps) for s in program.block.steps)

    def find_contradicting(some: Sequence[RandomProgram]) -> Sequence[RandomProgram]:
        return [one for one in some if has_loop_with_kernel(one)]

    large = [program for program in draw_programs() if has_loop_with_kernel(program) and measure(program)[0] > 12][:5]
    for program in large:
        small = shrink(program, find_contradicting)
        assert has_loop_with_kernel(small)
        assert measure(small)[0] <= 5
        assert small.seed == program.seed


def _make_read(step: Step) -> Step:
    """Returns a step of one operand, to be put before those of the block."""
    value = replace(step.outputs[0], number=10_000)
    return Step(word="tanh", inputs=step.inputs[:1], outputs=(value,), numbers=(1,))


def _replace_step(program: RandomProgram, old: Step, new: Step) -> RandomProgram:
    steps = tuple(new if step is old else step for step in program.block.steps)
    return replace(program, block=replace(program.block, steps=steps))
