"""The function that stands in for a custom call: fixed by the payload, continuous, and limited to what the call writes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ligerdiag.effects.access import Access, CallEffects, OperandUse, ReadsBeforeWrite, WriteCoverage
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.opaque_calls import OpaqueCall, OpaqueUse
from ligerdiag.replay.opaque_runs.opaque import OpaqueRunner, describe_call, is_opaque
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.by_hand import parse

SIZE = 4096
READ, WRITE, UPDATE = OpaqueUse(reads=True), OpaqueUse(writes=True), OpaqueUse(reads=True, writes=True, blends=True)


def find_call(line: str = 'k = f32[4] custom-call(x), custom_call_target="mine"') -> HloInstruction:
    module = parse(f"{{\nx = f32[4] parameter(0)\nROOT {line}\n}}")
    return next(call for _, call in module.iterate_custom_calls())


def launch(
    uses: tuple[OpaqueUse, ...], buffers: list[Any], *, function: str = "f", isolated: bool = False
) -> list[Any]:
    """Returns the buffers after a call with one output, the last one."""
    call = find_call()
    runner = OpaqueRunner(calls={call.id: OpaqueCall(id=call.id, function=function, uses=uses)}, isolated=isolated)
    found = [np.array(buffer) for buffer in buffers]
    runner.launch(call, found[:-1], found[-1:], watched=True)
    return found


def draw(seed: int, size: int = SIZE) -> Any:
    return np.random.default_rng(seed).standard_normal(size)


def test_equal_calls_compute_equal_values_and_other_functions_others() -> None:
    buffers = [draw(0), np.zeros(SIZE)]
    first, again, other = (launch((READ, WRITE), buffers, function=name)[1] for name in ("f", "f", "g"))
    assert np.array_equal(first, again)
    assert not np.any(first == other)
    assert first.min() >= 0.5
    assert first.max() <= 1.5


def test_each_element_depends_on_each_element_that_is_read() -> None:
    x, small = draw(0), draw(1, 7)
    before = launch((READ, READ, WRITE), [x, small, np.zeros(SIZE)])[2]
    for number, buffer in enumerate((x, small)):
        changed = [np.array(x), np.array(small), np.zeros(SIZE)]
        changed[number][buffer.size // 2] += 0.1
        assert not np.any(launch((READ, READ, WRITE), changed)[2] == before)


def test_a_buffer_that_is_not_read_changes_nothing() -> None:
    unread = OpaqueUse()
    first, second = (launch((unread, WRITE), [draw(seed), np.zeros(SIZE)])[1] for seed in (0, 1))
    assert np.array_equal(first, second)


def test_rounding_errors_do_not_grow_when_a_call_is_repeated() -> None:
    x = draw(0)
    exact, moved = [x, np.zeros(8)], [x * (1 + 1e-15), np.zeros(8)]
    for _ in range(200):
        exact, moved = (launch((UPDATE, WRITE), buffers) for buffers in (exact, moved))
    assert np.abs(exact[0] - moved[0]).max() < 1e-12
    old = [draw(1), np.zeros(8)]
    for _ in range(200):
        old = launch((UPDATE, WRITE), old)
    assert np.abs(exact[0] - old[0]).mean() > 1e-2  # the first contents are not forgotten


def test_only_the_footprint_is_written() -> None:
    x = draw(0)
    part = replace(UPDATE, start=10, stop=20)
    written = launch((part, WRITE), [x, np.zeros(SIZE)])[0]
    assert np.flatnonzero(written != x).tolist() == list(range(10, 20))
    whole = launch((UPDATE, WRITE), [x, np.zeros(SIZE)])[0]
    assert np.array_equal(written[10:20], whole[10:20])


def test_in_isolated_memory_an_operand_keeps_its_contents() -> None:
    x = draw(0)
    kept, output = launch((UPDATE, WRITE), [x, np.zeros(SIZE)], isolated=True)
    assert np.array_equal(kept, x)
    assert np.array_equal(output, launch((UPDATE, WRITE), [x, np.zeros(SIZE)])[1])


def test_an_output_that_the_call_does_not_write_is_not_a_number() -> None:
    assert np.isnan(launch((READ, OpaqueUse()), [draw(0), np.zeros(SIZE)])[1]).all()


def test_masks_of_infinities_are_read_and_a_nan_is_passed_on() -> None:
    x = np.where(draw(0) > 0, -np.inf, draw(1))
    assert np.isfinite(launch((READ, WRITE), [x, np.zeros(SIZE)])[1]).all()
    x[3] = np.nan
    assert np.isnan(launch((READ, WRITE), [x, np.zeros(SIZE)])[1]).all()


@pytest.mark.parametrize(("dtype", "values"), [(np.int32, set(range(16))), (np.uint8, set(range(16))), (bool, {0, 1})])
def test_integers_stay_small(dtype: Any, values: set[int]) -> None:
    assert set(launch((READ, WRITE), [draw(0), np.zeros(SIZE, dtype)])[1].tolist()) == values


def describe(use: Mapping[str, Any], access: Access = Access.READ_WRITE) -> OpaqueUse:
    effects = CallEffects(kernel="k", operands=(access,), outputs=(Access.WRITE,), operand_uses=(OperandUse(**use),))
    return describe_call(find_call(), effects, has_layouts=True).uses[0]


def test_effects_become_uses() -> None:
    fully = {"coverage": WriteCoverage.COMPLETE, "reads_before_write": ReadsBeforeWrite.NO}
    assert describe(fully) == WRITE
    assert describe({"span": (4, 10), "coverage": WriteCoverage.PARTIAL}) == replace(UPDATE, start=1, stop=3)
    assert describe({"reads_before_write": ReadsBeforeWrite.NO}) == OpaqueUse(writes=True, blends=True)
    assert describe({"reads_before_write": ReadsBeforeWrite.YES}, Access.READ) == READ
    with pytest.raises(NotCoveredError, match="the effects of `k` are unknown"):
        describe({}, Access.UNKNOWN)


def test_a_buffer_in_another_layout_is_refused() -> None:
    line = 'k = f32[2,2]{0,1} custom-call(x), custom_call_target="mine"'
    effects = CallEffects(kernel="k", operands=(Access.READ,), outputs=(Access.WRITE,))
    with pytest.raises(NotCoveredError, match="row-major"):
        describe_call(find_call(line), effects, has_layouts=True)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("mine", True),
        ("triton_kernel_call", True),
        ("cusolver_getrf_ffi", True),
        ("__cublas$gemm", False),
        ("__cudnn$convForward", False),
        ("AllocateBuffer", False),
        ("Sharding", False),
    ],
)
def test_calls_that_replay_computes_are_not_opaque(target: str, expected: bool) -> None:
    assert is_opaque(find_call(f'k = f32[4] custom-call(x), custom_call_target="{target}"')) is expected


@pytest.mark.parametrize("size", [2, 8, 64])
@pytest.mark.parametrize("uses", [(READ, WRITE), (UPDATE, WRITE)])
def test_a_sum_shows_what_the_function_reads(size: int, uses: tuple[OpaqueUse, ...]) -> None:
    """A change of all elements by one amount lets some elements rise and as many fall, but not by equal amounts."""
    x = np.abs(draw(0, 16))
    for number in range(64):
        name = str(number)
        one, two = (launch((READ, WRITE), [x + moved, np.zeros(size)], function=name)[1].sum() for moved in (0.0, 0.01))
        assert abs(one - two) > 1e-9, number
        held = np.full(size, 0.25)
        own = [launch(uses, [held + moved, np.zeros(size)], function=name) for moved in (0.0, 0.01)]
        assert all(abs(before.sum() - after.sum()) > 1e-9 for before, after in zip(*own, strict=True)), number
