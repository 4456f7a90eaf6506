"""Compares the static answer about each buffer of each launch with the accesses that Triton's interpreter makes.

Soundness: every answer is true in every run. Precision: `truth_cases` pins every answer, so that a loss of precision
fails.
"""

import functools
import json
import os
import subprocess
import sys
import zlib
from collections import Counter
from typing import Any

import pytest

from ligerdiag.effects import triton_call_pb2
from ligerdiag.effects.access import CallEffects, OperandUse
from ligerdiag.effects.call import compute_call_effects
from tests.effects.truth_case import TruthCase
from tests.effects.truth_cases import CASES
from tests.effects.truth_sweep import SWEEP
from tests.oracle.frontend import build_ttir

BYTES = {"fp32": 4, "fp16": 2, "i32": 4, "i64": 8, "i8": 1, "u8": 1, "fp8e4nv": 1}
LETTERS = {
    "yes": "y", "no": "n", "complete": "c", "partial": "p", "none": "-", "disjoint": "d", "shared": "s", "unknown": "?",
}  # fmt: skip

EXACT = {"reads before write": 183, "coverage": 182, "neighbours": 185}
"""Buffers of interpreted kernels for which the analysis gives the observed answer; it gives UNKNOWN for the others."""

EXACT_IN_PLACE = {"d": 72, "s": 22}
"""The same for pairs of a reader and a writer of equal size."""


@pytest.fixture(scope="session")
def truth() -> dict[str, list[dict[str, Any]]]:
    """Returns for each case one record per random input; see `truth_run`."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.effects.truth_run"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@functools.cache
def compute(name: str) -> CallEffects:
    """Returns the effects of the case's launch, from a payload in jax-triton's format."""
    case = (CASES | SWEEP)[name]
    names = [parameter for parameter in case.kernel.arg_names if parameter not in case.constants]
    signature = {
        parameter: f"*{case.buffers[parameter][0]}"
        if parameter in case.buffers
        else ("i32" if isinstance(case.scalars[parameter], int) else "fp32")
        for parameter in names
    }
    operands = [parameter for parameter in names if parameter in case.buffers]
    proto = triton_call_pb2.TritonAnyKernelCall()
    call = proto.kernel_call
    call.kernel.kernel_name = case.kernel.__name__
    call.kernel.ttir = build_ttir(case.kernel, signature, case.constants).decode()
    call.grid_0, call.grid_1, call.grid_2 = case.grid
    for parameter in names:
        added = call.parameters.add()
        if parameter in case.buffers:
            added.array.SetInParent()
        elif isinstance(case.scalars[parameter], int):
            added.i32 = case.scalars[parameter]
        else:
            added.f32 = case.scalars[parameter]
    return compute_call_effects(
        target="triton_kernel_call",
        backend_config=zlib.compress(proto.SerializeToString()),
        operands=len(operands),
        outputs=0,
        sizes=tuple(BYTES[case.buffers[p][0]] * case.buffers[p][1] for p in operands),
    )


def get_uses(case: TruthCase, effects: CallEffects) -> dict[str, OperandUse]:
    names = [parameter for parameter in case.kernel.arg_names if parameter in case.buffers]
    return dict(zip(names, effects.operand_uses, strict=True))


def get_in_place(case: TruthCase, effects: CallEffects) -> dict[str, str]:
    """Returns the letter for each pair "reader writer", without the UNKNOWN ones."""
    names = [parameter for parameter in case.kernel.arg_names if parameter in case.buffers]
    return {f"{names[pair.reader]} {names[pair.writer]}": LETTERS[pair.neighbours.value] for pair in effects.in_place}


def list_pairs(case: TruthCase, effects: CallEffects) -> list[str]:
    """Returns the pairs of equal size whose first buffer may be read and whose second may be written."""
    names = [parameter for parameter in case.kernel.arg_names if parameter in case.buffers]
    access = dict(zip(names, effects.operands, strict=True))
    size = {name: BYTES[case.buffers[name][0]] * case.buffers[name][1] for name in names}
    return [f"{a} {b}" for a in names for b in names if size[a] == size[b] and access[a].reads and access[b].writes]


def render(use: OperandUse) -> str:
    return "".join(LETTERS[kind.value] for kind in (use.reads_before_write, use.coverage, use.neighbours))


@pytest.mark.parametrize("name", CASES)
def test_the_answer_for_a_kernel_is_as_precise_as_recorded(name: str) -> None:
    case = CASES[name]
    uses = get_uses(case, compute(name))
    assert {buffer: render(use) for buffer, use in uses.items()} == {
        buffer: case.expected.get(buffer, "???") for buffer in uses
    }, {buffer: use.reason for buffer, use in uses.items()}
    for use in uses.values():
        assert use.is_unknown == bool(use.reason)


def check_soundness(case: TruthCase, effects: CallEffects, seen: dict[str, Any]) -> None:
    """Every answer equals the observation, or is UNKNOWN."""
    assert not seen["stray"]
    for (buffer, use), access in zip(get_uses(case, effects).items(), effects.operands, strict=True):
        letters = seen[buffer]["letters"]
        assert access.reads or not seen[buffer]["reads"], buffer
        assert access.writes or not seen[buffer]["changed"], buffer
        assert access.writes or letters[1] == "-", buffer
        for said, found in zip(render(use), letters, strict=True):
            assert said in ("?", found), f"`{buffer}`: {render(use)} said, {letters} seen"
    for pair, said in get_in_place(case, effects).items():
        assert said == seen["in place"][pair], pair


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.interpreted])
def test_every_answer_for_a_kernel_was_observed(name: str, truth: dict[str, list[dict[str, Any]]]) -> None:
    for seen in truth[name]:
        check_soundness(CASES[name], compute(name), seen)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if n % 3 else name for n, name in enumerate(SWEEP)]
)
def test_answers_are_exact_for_launches_of_every_size(name: str, truth: dict[str, list[dict[str, Any]]]) -> None:
    case, effects = SWEEP[name], compute(name)
    check_soundness(case, effects, truth[name][0])
    for buffer, use in get_uses(case, effects).items():
        # The analysis does not prove that a read-only buffer is not read at all.
        letters = render(use) if truth[name][0][buffer]["reads"] else render(use)[1:]
        assert "?" not in letters, buffer
    assert get_in_place(case, effects).keys() == set(list_pairs(case, effects))


IN_PLACE = [
    ("vector add", {"x o": "d", "y o": "d"}),
    ("vector add in place", {"w w": "d", "m w": "d", "gradient w": "d", "w m": "d", "m m": "d", "gradient m": "d"}),
    ("fused softmax", {"x o": "d"}),
    ("square matmul", {"a c": "s", "b c": "s"}),
    ("matmul of whole rows", {"a c": "d"}),
    ("split-k matmul", {"c c": "?"}),
    ("swiglu, gradient in place", {"dc a": "d", "b a": "d", "a b": "d"}),
    ("cross entropy in place", {"x x": "?"}),
    ("layer norm, input gradient under locks", {"dw dw": "?", "dw db": "?", "locks locks": "?"}),
    ("transpose", {"x o": "s"}),
    ("transpose by trans", {"x o": "d"}),
    ("transpose in place", {"x x": "s"}),
    ("rows reversed", {"x o": "s"}),
    ("rows reversed in place", {"x x": "s"}),
    ("doubled by full blocks", {"x x": "s"}),
    ("neighbours' elements", {"x o": "s"}),
    ("neighbours' elements in place", {"x x": "s"}),
    ("sum of all", {"o o": "?"}),
    ("rows to places that data says", {"x o": "?"}),
    ("where positive", {"x o": "d"}),
    ("a while loop", {"x o": "d"}),
    ("normalised twice", {"x x": "d"}),
    ("scratch read back, and more", {"scratch scratch": "d", "scratch o": "d"}),
    ("tickets", {"tickets tickets": "?"}),
    ("only one program writes", {"x o": "d"}),
]
"""Case, and the answers for some of its pairs."""


@pytest.mark.parametrize(("name", "expected"), IN_PLACE)
def test_the_answer_for_an_in_place_pair_is_as_precise_as_recorded(name: str, expected: dict[str, str]) -> None:
    said = get_in_place(CASES[name], compute(name))
    assert {pair: said.get(pair, "?") for pair in expected} == expected


def test_the_numbers_of_exact_answers_are_as_recorded(truth: dict[str, list[dict[str, Any]]]) -> None:
    counted = dict.fromkeys(EXACT, 0)
    buffers = possible = 0
    pairs: Counter[str] = Counter()
    names = [name for name in truth if name in CASES]
    for name in names:
        pairs.update(get_in_place(CASES[name], compute(name)).values())
        possible += len(list_pairs(CASES[name], compute(name)))
        for use in get_uses(CASES[name], compute(name)).values():
            buffers += 1
            for what, letter in zip(EXACT, render(use), strict=True):
                counted[what] += letter != "?"
    print(f"{len(names)} kernels, {buffers} buffers, exact: {counted}")
    print(f"pairs of buffers of one size: {possible}, told: {pairs}")
    assert (len(names), buffers, counted) == (68, 197, EXACT)
    assert (possible, pairs) == (120, EXACT_IN_PLACE)


def test_only_these_kernels_cannot_be_interpreted() -> None:
    assert [name for name, case in CASES.items() if not case.interpreted] == [
        "libdevice",
        "block-scaled matmul",
        "pure assembly",
    ]
