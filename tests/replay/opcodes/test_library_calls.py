"""Library calls and annotations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.xla_cpu import evaluate_module, parse_text


def call(operands: list[Any], result: str, target: str, config: str = "", comparator: str = "") -> Any:
    """Evaluates one call of f32, s32 or u32 operands."""
    names = {"float32": "f32", "int32": "s32", "uint32": "u32"}
    shapes = [f"{names[o.dtype.name]}[{','.join(map(str, o.shape))}]" for o in operands]
    parameters = "\n".join(f"p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes))
    used = ", ".join(f"p{i}" for i in range(len(operands)))
    rest = (", called_computations={f}" if comparator else "") + (f", backend_config={config}" if config else "")
    text = f"""HloModule m
{comparator}
ENTRY e {{ {parameters}
ROOT r = {result} custom-call({used}), custom_call_target="{target}"{rest} }}"""
    return evaluate_module(parse_text(text), operands)


@pytest.mark.parametrize("target", ["cu_threefry2x32_ffi", "cu_threefry2x32"])
def test_threefry_has_the_bits_of_jax_on_the_cpu(target: str) -> None:
    words = [np.random.default_rng(seed).integers(0, 2**32, (3, 50), dtype=np.uint32) for seed in range(4)]
    found = call(words, "(u32[3,50], u32[3,50])", target)
    from jax._src.random.threefry2x32 import threefry2x32_p

    for mine, theirs in zip(found, jax.jit(threefry2x32_p.bind)(*words), strict=True):
        np.testing.assert_array_equal(mine, theirs)


GREATER = """f { a = f32[] parameter(0)
b = f32[] parameter(1)
ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER }"""
X = np.random.default_rng(0).integers(-9, 9, (3, 40)).astype(np.float32)


@pytest.mark.parametrize("target", ["TopK", "__gpu$TopK"])
def test_top_k_by_a_library_equals_that_of_jax(target: str) -> None:
    values, positions = call([X], "(f32[3,5], s32[3,5])", target, "{is_stable = true}", GREATER)
    expected = jax.lax.top_k(jnp.asarray(X), 5)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(positions, expected[1])


def test_top_k_of_the_smallest_by_a_library_is_not_covered() -> None:
    with pytest.raises(NotCoveredError, match="smallest"):
        call([X], "(f32[3,5], s32[3,5])", "__gpu$TopK", "", GREATER.replace("GT", "LT"))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("target", ["__cub$DeviceRadixSort", "__cub$DeviceRadixSortUnassignedScratchSize"])
def test_a_radix_sort_takes_values_along(descending: bool, target: str) -> None:
    values = np.arange(120, dtype=np.int32).reshape(3, 40)
    config = '{"descending":true}' if descending else '{"descending":false}'
    keys, moved, scratch = call([X, values], "(f32[3,40], s32[3,40], u8[16])", target, config)
    order = np.argsort(-X if descending else X, axis=1, kind="stable")
    np.testing.assert_array_equal(keys, np.take_along_axis(X, order, 1))
    np.testing.assert_array_equal(moved, np.take_along_axis(values, order, 1))
    assert not scratch.any()
    alone, _ = call([X], "(f32[3,40], u8[16])", target, config)
    np.testing.assert_array_equal(alone, keys)


def test_a_radix_sort_takes_both_zeros_as_one() -> None:
    keys = np.array([0.0, -0.0, -1.0, 0.0, -0.0], np.float32)
    _, moved, _ = call([keys, np.arange(5, dtype=np.int32)], "(f32[5], s32[5], u8[1])", "__cub$DeviceRadixSort")
    np.testing.assert_array_equal(moved, [2, 0, 1, 3, 4])


def test_a_radix_sort_of_another_layout_is_not_covered() -> None:
    text = """HloModule m
ENTRY e { x = f32[3,40]{0,1} parameter(0)
y = s32[3,40]{1,0} parameter(1)
ROOT r = (f32[3,40]{0,1}, s32[3,40]{1,0}, u8[16]) custom-call(x, y), custom_call_target="__cub$DeviceRadixSort" }"""
    with pytest.raises(NotCoveredError, match="RadixSort"):
        evaluate_module(parse_text(text), (X, X.astype(np.int32)))


@pytest.mark.parametrize(
    "target", ["Sharding", "xla.sdy.FuncResultSharding", "annotate_device_placement", "LayoutConstraint"]
)
def test_an_annotation_returns_its_operand(target: str) -> None:
    np.testing.assert_array_equal(call([X], "f32[3,40]", target), X)


def test_an_unwritten_buffer_holds_zeros() -> None:
    found = call([], "f32[2,3]", "AllocateBuffer")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


@pytest.mark.parametrize(
    "target", ["SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape", "triton_kernel_call", "anything"]
)
def test_every_other_call_is_not_covered(target: str) -> None:
    with pytest.raises(NotCoveredError, match=f"^custom-call {target}$"):
        call([X], "f32[3,40]", target)
