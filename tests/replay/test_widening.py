"""Programs in which every float is an f64, on bytes that are shared as they were."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ligerdiag.hlo.module import HloModule
from ligerdiag.replay.opaque_runs.wide_memory import WideScheduleRunner
from ligerdiag.replay.opaque_runs.widening import find_scale, widen_array, widen_module
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.by_hand import Doubling, assign, parse
from tests.replay.xla_cpu import evaluate_module, parse_text

THIRD = float(np.float32(1 / 3))


def compute(body: str, *arguments: Any) -> Any:
    module = widen_module(parse_text(f"HloModule m\nENTRY main {{\n{body}\n}}\n"))
    return evaluate_module(module, [widen_array(np.asarray(argument)) for argument in arguments])


def test_conversions_between_floats_are_identities() -> None:
    body = """x = f32[2] parameter(0)
h = bf16[2] convert(x)
r = bf16[2] reduce-precision(h), exponent_bits=4, mantissa_bits=3
ROOT back = f32[2] convert(r)"""
    result = compute(body, np.array([THIRD, 1e30], np.float32))
    assert result.dtype == np.float64
    assert result.tolist() == np.array([THIRD, 1e30], np.float32).astype(float).tolist()


def test_constants_keep_the_values_of_their_types() -> None:
    body = """a = bf16[2,2]{0,1} constant({{1, 2}, {3, 0.3333}})
b = f8e4m3fn[] constant(0.3)
c = c64[] constant((1, 2))
ROOT t = (bf16[2,2]{0,1}, f8e4m3fn[], c64[]) tuple(a, b, c)"""
    first, second, third = compute(body)
    assert first.tolist() == [[1, 2], [3, float(ml_dtypes.bfloat16(0.3333))]]
    assert second == float(ml_dtypes.float8_e4m3fn(0.3))
    assert (third, third.dtype) == (1 + 2j, np.complex128)


def test_integers_stay_as_they_are() -> None:
    assert compute("x = s32[2] parameter(0)\nROOT y = s32[2] add(x, x)", np.array([1, 2], np.int32)).dtype == np.int32


def test_bits_of_integers_become_the_floats_that_they_were() -> None:
    bits = np.array([THIRD, 2], np.float32).view(np.uint32)
    result = compute("x = u32[2] parameter(0)\nROOT y = f32[2] bitcast-convert(x)", bits)
    assert (result.dtype, result.tolist()) == (np.float64, [THIRD, 2])


def test_bits_of_floats_are_refused() -> None:
    module = parse_text("HloModule m\nENTRY main {\nx = f32[2] parameter(0)\nROOT y = u32[2] bitcast-convert(x)\n}\n")
    with pytest.raises(NotCoveredError, match="a bitcast-convert of floats"):
        widen_module(module)
    module = parse_text("HloModule m\nENTRY main {\nx = f16[2] parameter(0)\nROOT y = bf16[2] bitcast-convert(x)\n}\n")
    with pytest.raises(NotCoveredError, match="a bitcast-convert of floats"):
        widen_module(module)


def test_a_bitcast_to_another_type_is_refused() -> None:
    module = parse_text("HloModule m\nENTRY main {\nx = f32[2] parameter(0)\nROOT y = u32[2] bitcast(x)\n}\n")
    with pytest.raises(NotCoveredError, match="a bitcast to another element type"):
        widen_module(module)


def test_a_bit_pattern_that_the_schedule_computes_by_itself_is_refused() -> None:
    module = parse("{\nx = u32[4] parameter(0)\nROOT y = f32[4] bitcast-convert(x)\n}")
    with pytest.raises(NotCoveredError, match="outside of a fusion"):
        widen_module(module)


@pytest.mark.parametrize(("types", "scale"), [("f32 s32", 2), ("f32 bf16", 4), ("f8e5m2", 8), ("c64", 2), ("s8", 1)])
def test_bytes_grow_as_the_narrowest_float_does(types: str, scale: int) -> None:
    lines = [f"x{n} = {name}[4] parameter({n})" for n, name in enumerate(types.split())]
    lines[-1] = f"ROOT {lines[-1]}"
    assert find_scale(parse_text("HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n")) == scale


def run(module: HloModule, places: dict[str, int | tuple[int, int]], argument: Any) -> list[Any]:
    runner = WideScheduleRunner(
        module=widen_module(module), buffers=assign(module, places), kernels=Doubling(), original=module
    )
    return [output.tolist() for output in runner.execute([[widen_array(argument)]])[0]]


SHARED = """{
x = f32[8] parameter(0)
h = f32[8] copy(x)
s = f32[4] slice(x), slice={[4:8]}
n = bf16[4] convert(s)
m = bf16[4] negate(n)
ROOT t = (f32[8], bf16[4]) tuple(h, m)
}"""


@pytest.mark.parametrize("offset", [0, 2, 4, 14, 16, 24, 28, 32])
def test_a_narrow_value_overwrites_the_wide_elements_whose_bytes_it_takes(offset: int) -> None:
    values = np.arange(1, 9, dtype=np.float32)
    places: dict[str, int | tuple[int, int]] = {"x": (0, 0), "h": 0, "s": 64, "n": 128, "m": offset, "t": 256}
    first, second = run(parse(SHARED), places, values)
    assert second == [-5, -6, -7, -8]
    overwritten = {byte // 4 for byte in range(offset, offset + 8)}
    assert {number for number, value in enumerate(first) if value != values[number]} == overwritten & set(range(8))


@pytest.mark.parametrize("offset", [0, 2, 6, 12, 14, 16])
def test_a_wide_value_overwrites_the_narrow_elements_whose_bytes_it_takes(offset: int) -> None:
    body = """{
x = f32[4] parameter(0)
m = bf16[4] convert(x)
h = f32[4] negate(x)
ROOT t = (f32[4], bf16[4]) tuple(h, m)
}"""
    places: dict[str, int | tuple[int, int]] = {"x": (0, 0), "h": 0, "m": offset, "t": 256}
    first, second = run(parse(body), places, np.array([1, 2, 3, 4], np.float32))
    assert first == [-1, -2, -3, -4]
    overwritten = {number for number in range(4) if offset + 2 * number < 16}
    assert {number for number, value in enumerate(second) if value != number + 1} == overwritten


IN_PLACE = """{
x = f32[4] parameter(0)
h = f32[4] copy(x)
m = bf16[1] constant({9})
k = f32[4] custom-call(h), custom_call_target="triton_kernel_call"
ROOT t = (f32[4], bf16[1], f32[4]) tuple(h, m, k)
}"""


def test_a_kernel_in_place_leaves_no_element_with_old_copies() -> None:
    places: dict[str, int | tuple[int, int]] = {"x": (0, 0), "h": 0, "m": (50, 0), "k": 64, "t": 256}
    values = np.array([0, 1, 2, 3], np.float32)  # 2 * 0 is the old value
    assert run(parse(IN_PLACE), places, values) == [[0, 2, 4, 6], [9], [0, 1, 2, 3]]


def test_a_kernel_reads_an_element_that_is_overwritten_in_part() -> None:
    body = """{
x = f32[4] parameter(0)
h = f32[4] copy(x)
p = f32[1] slice(x), slice={[0:1]}
m = bf16[1] convert(p)
k = f32[4] custom-call(h), custom_call_target="triton_kernel_call"
ROOT t = (f32[4], bf16[1], f32[4]) tuple(h, m, k)
}"""
    places: dict[str, int | tuple[int, int]] = {"x": (0, 0), "h": 0, "p": 96, "m": 6, "k": 128, "t": 256}
    first, _, third = run(parse(body), places, np.array([1, 2, 3, 4], np.float32))
    assert [value == meant for value, meant in zip(third, [1, 2, 3, 4], strict=True)] == [True, False, True, True]
    assert first == [2 * value for value in third]


def test_a_kernel_in_a_fusion_runs_on_a_slice_of_the_wide_bytes() -> None:
    fused = """sliced {
  p = f32[8] parameter(0)
  part = f32[4] slice(p), slice={[4:8]}
  ROOT k = f32[4] custom-call(part), custom_call_target="triton_kernel_call"
}"""
    body = """{
x = f32[8] parameter(0)
h = f32[8] copy(x)
f = f32[4] fusion(h), kind=kCustom, calls=sliced
ROOT t = (f32[4], f32[8]) tuple(f, h)
}"""
    module = parse(body, fused)
    first, second = run(module, {"x": (0, 0), "h": 0, "f": 64, "t": 128}, np.arange(8, dtype=np.float32))
    assert (first, second) == ([4, 5, 6, 7], [0, 1, 2, 3, 8, 10, 12, 14])
