"""Large products are computed once and never confused with others."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ligerdiag.replay.ops import remembered_products
from ligerdiag.replay.ops.dtypes import count_different, have_same_bits
from ligerdiag.replay.ops.products import multiply
from ligerdiag.replay.ops.remembered_products import RememberedProducts


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> RememberedProducts:
    monkeypatch.setattr(remembered_products, "WORTHWHILE", 1)
    monkeypatch.setattr(remembered_products, "WORTHWHILE_PER_BYTE", 0)
    return RememberedProducts(1 << 20)


F32 = np.dtype(np.float32)


def draw(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_equal_bits_are_multiplied_once_wherever_they_are_stored(remembered: RememberedProducts) -> None:
    x, w = draw(0, 1, 20, 30), draw(1, 1, 30, 40)
    first = remembered.multiply(x, w, F32)
    assert remembered.multiply(x.copy(), w.copy(), F32) is first
    assert remembered.hits == 1
    assert np.array_equal(first, x @ w)


def test_an_overwritten_operand_counts_as_another(remembered: RememberedProducts) -> None:
    x, w = draw(0, 1, 20, 30), draw(1, 1, 30, 40)
    remembered.multiply(x, w, F32)
    w[0, 17, 3] += 1  # between the elements that are compared first
    assert np.array_equal(remembered.multiply(x, w, F32), x @ w)
    x[...] = 0
    assert not remembered.multiply(x, w, F32).any()
    assert remembered.hits == 0


def test_an_array_with_another_writable_view_may_change(remembered: RememberedProducts) -> None:
    x, w = draw(0, 1, 20, 30), draw(1, 1, 30, 40)
    view = x[:]
    view.flags.writeable = False
    remembered.multiply(view, w, F32)
    x[...] = 0
    assert not remembered.multiply(view, w, F32).any()
    assert remembered.hits == 0


def test_a_matrix_and_its_transpose_are_two_factors(remembered: RememberedProducts) -> None:
    x, w = draw(0, 1, 30, 30), draw(1, 1, 30, 30)
    for left, right in ((x, w), (x, w.swapaxes(1, 2)), (x.swapaxes(1, 2), w), (w, x)):
        assert np.array_equal(remembered.multiply(left, right, F32), left @ right)
    assert remembered.hits == 0
    remembered.multiply(x, w.swapaxes(1, 2), F32)
    assert remembered.hits == 1


def test_narrow_operands_are_widened_once_and_are_those_of_their_dtype(remembered: RememberedProducts) -> None:
    bits = np.arange(600, dtype=np.uint8).reshape(1, 20, 30) % 100
    ones = np.ones((1, 30, 40), ml_dtypes.bfloat16)
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        narrow = bits.view(dtype)
        found = remembered.multiply(narrow, ones, F32)
        assert np.array_equal(found, narrow.astype(np.float32) @ ones.astype(np.float32))
        assert remembered.multiply(narrow.copy(), ones, F32) is found
    assert remembered.hits == 2
    wide = remembered.multiply(narrow, ones, np.dtype(np.float64))
    assert wide.dtype == np.float64


def test_beyond_the_limit_products_are_computed_again() -> None:
    remembered = RememberedProducts(0)
    x, w = draw(0, 1, 1100, 1000), draw(1, 1, 1000, 1000)
    assert np.array_equal(remembered.multiply(x, w, F32), remembered.multiply(x, w, F32))
    assert remembered.hits == 0


def test_a_view_of_the_same_bytes_takes_no_more_memory(remembered: RememberedProducts) -> None:
    x, w = draw(0, 1, 20, 80), draw(1, 1, 80, 40)
    remembered.multiply(x, w, F32)
    size = remembered.size
    split = x.reshape(20, 4, 20).transpose(1, 0, 2), w.reshape(4, 20, 40)
    product = remembered.multiply(*split, F32)
    assert np.array_equal(product, split[0] @ split[1])
    assert remembered.size == size + product.nbytes


def test_the_largest_product_for_its_work_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_products, "WORTHWHILE", 1)
    monkeypatch.setattr(remembered_products, "WORTHWHILE_PER_BYTE", 0)
    wide, small = (draw(0, 1, 100, 2), draw(1, 1, 2, 100)), (draw(2, 1, 2, 100), draw(3, 1, 100, 2))
    remembered = RememberedProducts(44_000)
    for pair in (small, wide, small, (draw(4, 1, 2, 100), draw(5, 1, 100, 2)), small):
        assert np.array_equal(remembered.multiply(*pair, F32), pair[0] @ pair[1])
        assert remembered.size <= 44_000
    assert remembered.hits == 2
    remembered.multiply(*wide, F32)
    assert remembered.hits == 2


def test_what_was_dear_once_is_forgotten_if_nobody_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_products, "WORTHWHILE", 1)
    monkeypatch.setattr(remembered_products, "WORTHWHILE_PER_BYTE", 0)
    remembered = RememberedProducts(9_000)
    old = draw(100, 1, 4, 100), draw(101, 1, 100, 4)
    remembered.multiply(*old, F32)
    for seed in range(12):
        remembered.multiply(draw(seed, 1, 10, 40), draw(seed + 20, 1, 40, 10), F32)
    remembered.multiply(*old, F32)
    assert remembered.hits == 0


def test_a_product_that_is_cheap_for_its_operands_is_not_remembered() -> None:
    remembered = RememberedProducts(1 << 30)
    remembered.multiply(draw(0, 1, 4, 5000), draw(1, 1, 5000, 1000), F32)
    assert remembered.size == 0


def test_rows_that_lie_apart_give_the_same_bits() -> None:
    x, w = draw(0, 1, 60, 800), draw(1, 1, 800, 90)
    views = x.reshape(60, 4, 200).transpose(1, 0, 2), w.reshape(800, 2, 45)[:, 1].reshape(4, 200, 45)
    for left, right in ((views[0], views[1]), (views[0], w.reshape(4, 200, 90)[:, :, 7:52])):
        apart = multiply(left, right, F32)
        assert have_same_bits(apart, multiply(left.copy(), right.copy(), F32))


@pytest.mark.parametrize("size", [0, 3, 8, 1 << 18, (1 << 18) + 5])
def test_bits_are_compared_to_the_last_byte(size: int) -> None:
    one = np.arange(size, dtype=np.uint64).astype(np.uint8)
    assert have_same_bits(one, one.copy())
    for place in {0, size // 2, size - 1} if size else set[int]():
        other = one.copy()
        other[place] ^= 1
        assert not have_same_bits(one, other)
    assert not have_same_bits(np.array([0.0], np.float32), np.array([-0.0], np.float32))
    assert have_same_bits(np.array([np.nan], np.float32), np.array([np.nan], np.float32))
    number: Any = np.float32(1) + np.float32(2)
    assert have_same_bits(number, np.array(3, np.float32))
    assert not have_same_bits(number, np.array(4, np.float32))


def test_elements_that_differ_are_counted_in_every_width() -> None:
    for dtype in (np.uint8, np.bool_, ml_dtypes.bfloat16, np.float32, np.float64, np.complex128):
        one = np.zeros((700, 400), dtype)
        other = one.copy()
        other[0, 0], other[3, 399], other[699, 399] = 1, 1, 1
        assert count_different(one, other) == 3
        assert count_different(one.T, other.T) == 3
        assert count_different(one, one.copy()) == 0
    assert count_different(np.zeros(2, np.float32), np.array([0.0, -0.0], np.float32)) == 1
