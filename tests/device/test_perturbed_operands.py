"""The other contents that `ligerdiag.opcheck` gives an operand: other numbers in each element, or integers that stay in
range.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ligerdiag.device.canary_runs import _perturb
from ligerdiag.device.guarded_buffers import view_bytes

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int32", "int64", "uint8", "uint32")
FIXED_POINT = -0.2
"""The number that -1.5 x - 0.5 leaves unchanged."""
ORDINARY = [*np.linspace(-6, 6, 49), 0.5, 0.25, 0.75]
CONTENTS = {
    "ordinary": ORDINARY,
    "all equal": [3.0] * 16,
    "zeros": [0.0, -0.0] * 8,
    "not finite": [np.nan, np.inf, -np.inf, 1.0, 0.75, 0.25],
    "as they were": [FIXED_POINT, 0.25, 0.75, FIXED_POINT],
    "large": [100.0, -100.0, 1.0, 0.0],
}


def find_dtype(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name, name))


def perturb(values: Any, *, integers: bool = True) -> Any:
    """Returns the other contents as an array of the dtype of `values`; None if there are none."""
    found = _perturb(view_bytes(values), values.dtype, integers=integers)
    if found is None:
        return None
    assert (found.dtype, found.size) == (np.uint8, values.nbytes)
    return found.view(values.dtype).reshape(values.shape)


def compare_bytes(one: Any, other: Any) -> Any:
    """Returns which elements differ in a byte."""
    size = one.dtype.itemsize
    return (view_bytes(one) != view_bytes(other)).reshape(-1, size).any(axis=1)


@pytest.mark.parametrize("contents", CONTENTS)
@pytest.mark.parametrize("name", [*FLOATS, *COMPLEX])
def test_each_float_is_another_one(name: str, contents: str) -> None:
    values = np.array(CONTENTS[contents]).astype(find_dtype(name))
    assert compare_bytes(values, perturb(values)).all()


@pytest.mark.parametrize("name", FLOATS)
def test_floats_have_the_other_sign_and_stay_apart(name: str) -> None:
    """A kernel that branches on a sign takes its other way, and one that compares two elements finds them different."""
    values = np.array(ORDINARY).astype(find_dtype(name))
    old, new = values.astype(np.float64), perturb(values).astype(np.float64)
    assert (new[old > 0] < 0).all()
    assert (new[old < -0.5] > 0).all()
    assert np.isfinite(new).all()
    assert len(np.unique(new)) >= len(np.unique(old)) * 0.6


@pytest.mark.parametrize("name", COMPLEX)
def test_both_parts_of_a_complex_number_change(name: str) -> None:
    values = (np.linspace(1, 4, 13) + 1j * np.linspace(-5, 3, 13)).astype(name)
    found = perturb(values)
    assert (found.real != values.real).all()
    assert (found.imag[values.imag != 0] != values.imag[values.imag != 0]).all()


def test_each_boolean_is_inverted() -> None:
    values = np.array([True, False, True, True])
    assert perturb(values).tolist() == [False, True, False, False]


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_change_places_and_stay_in_range(name: str) -> None:
    values = np.array([5, 0, 3, 3, 7], name)
    found = perturb(values)
    assert sorted(found.tolist()) == sorted(values.tolist())
    assert compare_bytes(values, found).any()
    assert perturb(values, integers=False) is None


@pytest.mark.parametrize("name", INTEGERS)
def test_equal_integers_become_smaller_by_one_and_never_negative(name: str) -> None:
    assert perturb(np.full(4, 3, name)).tolist() == [2] * 4
    assert perturb(np.zeros(4, name)) is None


@pytest.mark.parametrize("name", ["float32", "int32", "bool"])
def test_an_operand_without_elements_has_no_other_contents(name: str) -> None:
    assert perturb(np.zeros(0, name)) is None
