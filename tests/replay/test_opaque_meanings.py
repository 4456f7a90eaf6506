"""Opaque functions show whether a program whose kernel declares its write means the same as one in which it is hidden."""

from typing import Any

import numpy as np
import pytest

from ligerdiag.artifacts.call_records import Placement
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.replay.opaque_runs.opaque_meanings import OpaqueDifferences, compare_opaquely, match_calls
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.runs.case_run import Programs, Signature
from tests.replay.test_program import parse as parse_program

START = ("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)")
HIDDEN = 'k_ld2 = f32[4] custom-call(h_ld1), custom_call_target="mine"'
DECLARED = (
    'c_ld2 = (f32[4], f32[4]) custom-call(h_ld1), custom_call_target="mine", output_to_operand_aliasing={{1}: (0, {})}',
    "k_ld3 = f32[4] get-tuple-element(c_ld2), index=0",
    "n_ld4 = f32[4] get-tuple-element(c_ld2), index=1",
)
ROOT = "t = (f32[4], f32[4]) tuple(%s)"
ORIGINAL = parse_program(*START, HIDDEN, "r_ld3 = f32[4] negate(h_ld1)", ROOT % "k_ld2, r_ld3")


def find_effects(call: HloInstruction) -> CallEffects:
    """Returns the effects of a kernel that reads and writes its operand: through the pointer to an output that aliases it,
    as with jax-triton before 0.4, if there is one.
    """
    outputs = [index for index, _ in iterate_leaf_shapes(call.shape)]
    aliased = set(call.operand_output_aliases.values())
    return CallEffects(
        kernel="k",
        operands=(Access.NONE if aliased else Access.READ_WRITE,) * len(call.operands),
        outputs=tuple(Access.READ_WRITE if index in aliased else Access.WRITE for index in outputs),
        code="" if "other" in call.proto.custom_call_target else "one",
    )


def wrap(program: HloModule) -> Programs:
    shapes = (
        [one.shape for one in program.entry.parameters],
        [s for _, s in iterate_leaf_shapes(program.entry.root.shape)],
    )
    places = [
        tuple(Placement(shape=tuple(one.dimensions), shards=(tuple((0, d) for d in one.dimensions),)) for one in part)
        for part in shapes
    ]
    names = tuple(f"o{number}" for number, _ in enumerate(shapes[1]))
    signature = Signature(
        inputs=("x",), outputs=names, input_placements=places[0], output_placements=places[1], devices=1
    )
    buffers = BufferAssignment(slices=(), definitions={}, overlapping={}, parameters={})
    return Programs(program=program, optimized=program, buffers=buffers, signature=signature)


def compare(changed: HloModule, original: HloModule = ORIGINAL) -> OpaqueDifferences:
    calls = match_calls(original, changed, find_effects)
    arguments: list[Any] = [(np.array([1, 2, 3, 4], np.float32),), (np.array([-1, -2, 3, 4], np.float32),)]
    return compare_opaquely(wrap(original), wrap(changed), arguments, calls)


def test_a_reader_of_the_declared_output_reads_what_the_hidden_write_left() -> None:
    changed = parse_program(*START, *DECLARED, "r_ld5 = f32[4] negate(n_ld4)", ROOT % "k_ld3, r_ld5")
    assert compare(changed) == OpaqueDifferences(different=(), telling=("o1",))


def test_a_reader_that_keeps_the_old_contents_differs() -> None:
    changed = parse_program(*START, *DECLARED, "r_ld5 = f32[4] negate(h_ld1)", ROOT % "k_ld3, r_ld5")
    assert compare(changed).different == ("o1",)


def test_a_second_kernel_that_gets_the_old_contents_differs() -> None:
    """Both calls return a copy of what they read: with real numbers, the second one may return the same for either."""
    second = HIDDEN.replace("k_ld2", "m_ld5")
    original = parse_program(*START, HIDDEN, second, ROOT % "k_ld2, m_ld5")
    right = parse_program(*START, *DECLARED, second.replace("h_ld1", "n_ld4"), ROOT % "k_ld3, m_ld5")
    wrong = parse_program(*START, *DECLARED, second, ROOT % "k_ld3, m_ld5")
    assert compare(right, original) == OpaqueDifferences(different=(), telling=("o1",))
    assert compare(wrong, original).different == ("o1",)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            [one.replace(", output_to_operand_aliasing={{1}: (0, {})}", "") for one in DECLARED],
            "do not call it with the same buffers",
        ),
        ([one.replace("{{1}:", "{{0}:") for one in DECLARED], "before an output that aliases no operand"),
    ],
)
def test_other_calls_are_not_compared(lines: list[str], reason: str) -> None:
    changed = parse_program(*START, *lines, "r_ld5 = f32[4] negate(n_ld4)", ROOT % "k_ld3, r_ld5")
    with pytest.raises(NotCoveredError, match=reason):
        compare(changed)


def test_kernels_of_unknown_code_with_other_payloads_have_not_the_same_code() -> None:
    changed = parse_program(*START, *DECLARED, "r_ld5 = f32[4] negate(n_ld4)", ROOT % "k_ld3, r_ld5")
    assert match_calls(ORIGINAL, changed, find_effects).has_same_code
    first, second = (
        parse_program(
            *START,
            HIDDEN.replace("mine", "other").replace('"other"', f'"other", backend_config="{one}"'),
            ROOT % "k_ld2, x",
        )
        for one in ("a", "b")
    )
    assert not match_calls(first, second, find_effects).has_same_code
    assert match_calls(first, first, find_effects).has_same_code
