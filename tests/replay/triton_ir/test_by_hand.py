"""Numbers derived by hand or with NumPy: narrow floats, single rounding, NaN, libdevice, products, descriptors."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ligerdiag.effects.ttir_module import parse_ttir
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.triton_ir.interpreter import run_grid
from ligerdiag.replay.triton_ir.outcome import Descriptor, GridOutcome
from tests.replay.triton_ir import hand_kernels
from tests.replay.triton_ir.oracle import Launch
from tests.replay.triton_ir.run import run_launch

FILE = Path(hand_kernels.__file__)
BF16 = np.dtype(ml_dtypes.bfloat16)
F8 = [np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e4m3fn)]


def run(
    kernel: str, *, grid: tuple[int, int, int] = (1, 1, 1), constants: dict[str, Any] | None = None, **arguments: Any
) -> dict[str, Any]:
    return run_launch(FILE, Launch(kernel=kernel, arguments=arguments, constants=constants or {}, grid=grid))[0]


def every_half(dtype: Any) -> Any:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16)], ids=str)
def test_narrow_arithmetic_rounds_once(dtype: Any) -> None:
    random = np.random.default_rng(1)
    x, y = (random.permutation(every_half(dtype))[:4096] for _ in range(2))
    found = run("narrow_arithmetic", x=x, y=y, o=np.zeros(3 * 4096, dtype), constants={"N": 4096})["o"]
    with np.errstate(all="ignore"):
        wide = [array.astype(np.float32) for array in (x, y)]
        wanted = np.concatenate([wide[0] + wide[1], wide[0] * wide[1], wide[0] - wide[1]]).astype(dtype)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16), *F8], ids=str)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_a_conversion_rounds_to_nearest_even(dtype: Any, source: Any) -> None:
    if dtype in F8 and source == np.float64:
        pytest.skip("Triton's frontend goes by way of f32")
    exact = np.sort(
        every_half(dtype).astype(np.float64)
        if dtype.itemsize == 2
        else np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    )
    exact = np.unique(exact[np.isfinite(exact)])
    middle = (exact[1:] + exact[:-1]) / 2
    chosen = np.random.default_rng(2).permutation(middle.size)[:1024] if middle.size > 1024 else np.arange(middle.size)
    middle = middle[chosen]
    below, above = exact[chosen], exact[chosen + 1]
    tiny = np.abs(middle) * (2.0**-22 if source == np.float32 else 2.0**-50)
    values = np.concatenate([middle, middle + tiny, middle - tiny])
    size = 1 << math.ceil(math.log2(values.size))
    x = np.zeros(size, source)
    x[: values.size] = values
    found = run("cast", x=x, o=np.zeros(size, dtype), constants={"N": size})["o"][: values.size].astype(np.float64)
    even = below.astype(dtype).view(f"u{dtype.itemsize}") % 2 == 0
    wanted = np.concatenate(
        [
            np.where(even, below, above),
            np.where(tiny > 0, above, found[middle.size : 2 * middle.size]),
            np.where(tiny > 0, below, found[2 * middle.size :]),
        ]
    )
    representable = x[: values.size].astype(np.float64) == values  # a subnormal step may vanish in f32
    np.testing.assert_array_equal(found[representable], wanted[representable])


def test_a_conversion_to_a_narrower_float_saturates_or_overflows() -> None:
    x = np.array([1e9, -1e9, np.inf, np.nan], np.float32)
    found = run("cast", x=x, o=np.zeros(4, F8[1]), constants={"N": 4})["o"].astype(np.float32)
    np.testing.assert_array_equal(found, [448, -448, 448, np.nan])
    x = np.array([3.4e38, 7e4, -np.inf, np.nan], np.float32)
    found = run("cast", x=x, o=np.zeros(4, BF16), constants={"N": 4})["o"].astype(np.float32)
    np.testing.assert_array_equal(found, [np.inf, 70144, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16)], ids=str)
def test_a_conversion_rounds_towards_zero_on_request(dtype: Any) -> None:
    x = np.random.default_rng(3).standard_normal(1024).astype(np.float32)
    found = run("cast_towards_zero", x=x, o=np.zeros(1024, dtype), constants={"N": 1024})["o"].astype(np.float32)
    assert (np.abs(found) <= np.abs(x)).all()
    assert (np.abs(found - x) < np.abs(x) * (2.0**-7 if dtype == BF16 else 2.0**-9)).all()


@pytest.mark.parametrize("target", [np.float32, np.float64, np.float16, BF16], ids=str)
def test_integers_round_once(target: Any) -> None:
    x = np.random.default_rng(4).integers(-(2**63), 2**63 - 1, 1024)
    x[:300] >>= 30
    x[300:310] = [2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63), 0, 1, 257, 65519, 65520, 2**40 + 2**32 + 1]
    dtype = np.dtype(target)
    found = run("cast", x=x, o=np.zeros(1024, dtype), constants={"N": 1024})["o"]
    bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype.name]
    for value, result in zip(x.tolist(), found.astype(np.float64).tolist(), strict=True):
        over = max(0, abs(value).bit_length() - bits)
        wanted = round(Fraction(value, 1 << over)) << over
        if dtype == np.float16 and abs(wanted) >= 65520:
            assert math.isinf(result)
        else:
            assert Fraction(result) == wanted, value


def test_floats_become_the_nearest_integer_of_the_range() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3.99, -3.99, 1e10, -1e10, 2147483520], np.float32)
    found = run("cast", x=x, o=np.zeros(8, np.int32), constants={"N": 8})["o"]
    np.testing.assert_array_equal(found, [0, 2**31 - 1, -(2**31), 3, -3, 2**31 - 1, -(2**31), 2147483520])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_fma_rounds_once(dtype: Any) -> None:
    random = np.random.default_rng(5)
    x, y = (random.standard_normal(512).astype(dtype) for _ in range(2))
    z = (-(x * y) * (1 + random.integers(-2, 3, 512) * np.finfo(dtype).eps)).astype(dtype)
    z[100:] = random.standard_normal(412).astype(dtype) * np.exp2(random.integers(-30, 9, 412)).astype(dtype)
    found = run("fused", x=x, y=y, z=z, o=np.zeros(512, dtype), constants={"N": 512})["o"]
    for a, b, c, result in zip(x, y, z, found, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        neighbours = [np.nextafter(result, dtype(way)) for way in (-np.inf, np.inf)]
        own = abs(Fraction(float(result)) - exact)
        assert all(own <= abs(Fraction(float(other)) - exact) for other in neighbours)


def test_minima_and_maxima_treat_nan_according_to_their_names() -> None:
    x = np.array([np.nan, -2, 0.5, 7], np.float32)
    found = run("not_a_number", x=x, o=np.zeros(17, np.float32), constants={"N": 4})["o"]
    wanted = [-1, -1, 0.5, 1, np.nan, -1, 0.5, 1, 0, 0, 0.5, 7, np.nan, 0, 0.5, 7, 7]
    np.testing.assert_array_equal(found, wanted)


def test_functions_of_the_device_library_are_computed_by_name() -> None:
    x = np.random.default_rng(6).standard_normal(64).astype(np.float32)
    x[5] = np.nan
    found = run("device_library", x=x, o=np.zeros(7 * 64, np.float32), constants={"N": 64})["o"].reshape(7, 64)
    wide = x.astype(np.float64)
    wanted = [
        np.tanh(wide),
        np.abs(wide) ** wide,
        np.arctan2(wide, wide + 1),
        np.log1p(np.abs(wide)),
        np.rint(x * np.float32(3)),
        np.isnan(x),
        np.abs(x),
    ]
    np.testing.assert_allclose(found, np.array(wanted), rtol=3e-7)


def test_functions_of_the_library_for_amd_gpus_are_computed_by_name() -> None:
    x = np.random.default_rng(6).standard_normal(64).astype(np.float32)
    x[5] = np.nan
    found = run("amd_library", x=x, o=np.zeros(7 * 64, np.float32), constants={"N": 64})["o"].reshape(7, 64)
    wide = x.astype(np.float64)
    bessel = [quad_j0(one) for one in wide]
    wanted = [np.tanh(wide), np.abs(wide) ** wide, np.log1p(np.abs(wide)), wide**3, np.isnan(x), np.tanh(wide), bessel]
    np.testing.assert_allclose(found, np.array(wanted), rtol=3e-7)
    with pytest.raises(NotCoveredError, match=r"the external function `__ocml_ilogb_f32`"):
        run("unknown_amd_function", x=np.ones(1, np.float32), o=np.zeros(1, np.int32))


def quad_j0(x: float) -> float:
    """Returns the Bessel function J0 by its integral: the mean of cos(x sin t) over half a turn."""
    turns = (np.arange(256) + 0.5) / 256
    return float(np.cos(x * np.sin(np.pi * turns)).mean())


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(NotCoveredError, match=r"__nv_byte_perm.*hand_kernels.py"):
        run("unknown_function", x=np.ones(1, np.int32), o=np.zeros(1, np.int32))


def test_inline_assembly_is_named() -> None:
    with pytest.raises(NotCoveredError, match=r"tt.elementwise_inline_asm \(.*hand_kernels.py:\d+\)"):
        run("inline_assembly", x=np.ones(1, np.int32), o=np.zeros(1, np.int32))


@pytest.mark.parametrize("dtype", [BF16, *F8], ids=str)
def test_products_of_narrow_floats_are_right(dtype: Any) -> None:
    random = np.random.default_rng(7)
    x, y = (random.integers(-8, 9, (32, 32)).astype(dtype) for _ in range(2))
    found = run("product", x=x, y=y, o=np.zeros((32, 32), np.float32), constants={"M": 32, "PRECISION": "ieee"})["o"]
    np.testing.assert_array_equal(found, x.astype(np.float32) @ y.astype(np.float32))


@pytest.mark.parametrize(("precision", "cut"), [("tf32", True), ("tf32x3", False), ("ieee", False)])
def test_products_in_tf32_are_right(precision: str, cut: bool) -> None:
    x = np.full((16, 16), 1 + 2.0**-10 + 2.0**-11 + 2.0**-20, np.float32)
    found = run(
        "product",
        x=x,
        y=np.eye(16, dtype=np.float32),
        o=np.zeros((16, 16), np.float32),
        constants={"M": 16, "PRECISION": precision},
    )
    assert (found["o"] == (1 + 2.0**-10 if cut else x)).all()


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16)], ids=str)
def test_narrow_reductions_are_right(dtype: Any) -> None:
    x = np.random.default_rng(8).integers(-4, 5, 64).astype(dtype)
    found = run("narrow_reductions", x=x, o=np.zeros(3, dtype), constants={"N": 64})["o"].astype(np.float32)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(found, [wide.sum(), wide.max(), wide.min()])


def test_rows_are_gathered_and_scattered() -> None:
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    rows = np.array([5, 0, 7, 2, 1, 1, -1, 3], np.int32)
    o = np.zeros((8, 8), np.float32)
    found = run("gathered_rows", x=x, rows=rows, o=o, m=8, n=8, constants={"M": 8, "N": 8})
    assert found["o"][7].tolist() == (x[3] + 1).tolist()


def test_blocks_are_added_and_padded_with_nan() -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    found = run(
        "added_blocks", x=x, o=np.zeros((3, 8), np.float32), m=3, n=8, grid=(2, 1, 1), constants={"M": 2, "N": 8}
    )
    assert found["o"][0].tolist() == (x[0] + x[1]).tolist()
    assert found["o"][1].tolist() == (x[1] + x[2]).tolist()
    assert found["o"][2].tolist() == [0] * 8


def test_narrow_floats_are_padded() -> None:
    found = run("narrow_padding", x=np.ones(3, BF16), o=np.zeros(4, BF16), n=3, constants={"N": 4})
    np.testing.assert_array_equal(found["o"].astype(np.float32), [1, 1, 1, np.nan])


def test_addresses_are_bytes() -> None:
    x = np.arange(64, dtype=np.uint8).view(np.int32)
    found = run("unaligned", x=x, o=np.zeros(16, np.int32), constants={"N": 8})["o"]
    bytes_ = x.view(np.uint8)
    assert found[:8].tolist() == [int(bytes_[1 + 4 * k : 5 + 4 * k].copy().view(np.int32)[0]) for k in range(8)]
    assert found[10] == bytes_[17:21].copy().view(np.int32)[0]
    assert found[11] == -1
    assert run("through_integer", x=x, o=np.zeros(1, np.int32))["o"][0] == x[2]


def test_a_scan_that_is_not_associative_runs_element_by_element() -> None:
    x = np.array([1, 5, 2, 4], np.int32)
    found = run("captured", x=x, o=np.zeros(4, np.int32), constants={"N": 4})["o"]
    assert found.tolist() == [1, -3, -8, -20]


def test_a_descriptor_made_by_the_host_is_supported() -> None:
    text = b"""
    tt.func public @k(%d: !tt.tensordesc<tensor<2x4xf32>>, %o: !tt.ptr<f32>) {
      %c0 = arith.constant 0 : i32
      %c3 = arith.constant 3 : i32
      %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
      %x = tt.descriptor_load %d[%c0, %c3] : !tt.tensordesc<tensor<2x4xf32>> -> tensor<2x4xf32>
      %f = tt.reshape %x : tensor<2x4xf32> -> tensor<8xf32>
      %p = tt.splat %o : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
      %q = tt.addptr %p, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
      tt.store %q, %f : tensor<8x!tt.ptr<f32>>
      tt.return
    }"""
    x, o = np.arange(10, dtype=np.float32), np.zeros(8, np.float32)
    run_grid(parse_ttir(text), "k", [Descriptor(array=x, shape=(2, 5), strides=(5, 1)), o], (1, 1, 1))
    assert o.tolist() == [3, 4, 0, 0, 8, 9, 0, 0]


def test_prints_and_asserts_change_nothing() -> None:
    text = b"""
    tt.func public @k(%o: !tt.ptr<f32>) {
      %p = tt.get_program_id x : i32
      %c1 = arith.constant 1 : i32
      %b = arith.cmpi slt, %p, %c1 : i32
      tt.assert %b, "only one" : i1
      tt.print " p: " {hex = false, isSigned = array<i32: 1>} : %p : i32
      tt.return
    }"""
    o = np.zeros(1, np.float32)
    assert run_grid(parse_ttir(text), "k", [o], (2, 1, 1)) == GridOutcome()
    assert o.tolist() == [0]


@pytest.mark.parametrize("optimized", [False, True])
def test_all_lanes_may_have_one_address(optimized: bool) -> None:
    arguments = {"x": np.array([3, 4], np.float32), "o": np.zeros(24, np.float32), "n": 1}
    launch = Launch(kernel="one_for_all", arguments=arguments, constants={"N": 4}, grid=(2, 1, 1))
    found = run_launch(FILE, launch, optimized=optimized)[0]["o"]
    assert found.reshape(2, 3, 4)[0].tolist() == [[3, 3, 3, 3], [3, 3, 0.5, 0.5], [3, 0.5, 0.5, 0.5]]
    assert found.reshape(2, 3, 4)[1].tolist() == [[4, 4, 4, 4], [4, 4, 0.5, 0.5], [4, 0.5, 0.5, 0.5]]


F4 = np.dtype(ml_dtypes.float4_e2m1fn)
SCALED = {"e2m1": F4, "e4m3": F8[1], "e5m2": F8[0], "bf16": BF16, "fp16": np.dtype(np.float16)}


def pack(values: Any, axis: int) -> Any:
    """Returns the bytes of f4 values, two along the axis in one byte, the first one low."""
    bits = values.view(np.uint8)
    low, high = (bits.take(range(start, bits.shape[axis], 2), axis) for start in (0, 1))
    return low | high << 4


@pytest.mark.parametrize("left", SCALED)
@pytest.mark.parametrize("right", SCALED)
def test_products_of_scaled_factors_are_right(left: str, right: str) -> None:
    random, rows, inner = np.random.default_rng(6), 32, 64
    x, y = (
        random.normal(0, 2, shape).astype(SCALED[kind])
        for kind, shape in ((left, (rows, inner)), (right, (inner, rows)))
    )
    sx, sy = (random.integers(120, 132, (rows, inner // 32)).astype(np.uint8) for _ in range(2))
    found = run(
        "scaled_product",
        x=pack(x, 1) if left == "e2m1" else x,
        sx=sx,
        y=pack(y, 0) if right == "e2m1" else y,
        sy=sy,
        o=np.zeros((3, rows, rows), np.float32),
        constants={
            "FX": left, "FY": right, "M": rows, "K": inner, "X": 1 + (left == "e2m1"), "Y": 1 + (right == "e2m1")
        },
    )["o"]  # fmt: skip
    a, b = x.astype(np.float64), y.astype(np.float64)
    p = np.repeat(2.0 ** (sx.astype(int) - 127), 32, axis=1)
    q = np.repeat(2.0 ** (sy.astype(int) - 127), 32, axis=1).T
    wanted = np.stack([(a * p) @ (b * q) + 1, a @ (b * q), (a * p) @ b])
    size = np.stack([abs(a * p) @ abs(b * q) + 1, abs(a) @ abs(b * q), abs(a * p) @ abs(b)])
    assert (abs(found - wanted) / size).max() < inner * 2.0**-24  # a sum of `inner` products in f32


def test_a_nan_scale_and_f4_packed_along_the_rows_are_supported() -> None:
    ones = np.ones((32, 64), np.float32).astype(F8[1])
    scales = np.full((32, 2), 127, np.uint8)
    scales[3, 1] = 255
    words = {"FX": "e4m3", "FY": "e4m3", "M": 32, "K": 64, "X": 1, "Y": 1}
    found = run(
        "scaled_product",
        x=ones,
        sx=scales,
        y=ones.T.copy(),
        sy=scales,
        o=np.zeros((3, 32, 32), np.float32),
        constants=words,
    )
    assert np.isnan(found["o"][0]).sum() == 63  # a row and a column
    x, y = (np.random.default_rng(7).normal(0, 2, shape).astype(F4) for shape in ((32, 64), (64, 32)))
    o = np.zeros((32, 32), np.float32)
    found = run("product_of_packed_rows", x=pack(x, 0), y=pack(y, 1), o=o, constants={"M": 32, "K": 64})
    np.testing.assert_array_equal(
        found["o"], x.astype(np.float32) @ y.astype(np.float32)
    )  # exact: quarters below 2**12
