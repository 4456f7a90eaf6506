"""The scaling kernel, run by Triton's interpreter, and the calls that its modes refuse."""

import jax
import numpy as np
import pytest
import scaling

TOLERANCE = {"float32": 1e-6, "bfloat16": 2**-7}  # one rounding of the product; the interpreter truncates to bf16


@pytest.mark.parametrize("mode", ["aliased", "out_of_place"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 1024)])
def test_arrays_of_any_shape_are_multiplied(interpreted, shape, dtype, mode):
    assert interpreted(scaling.compute_error, shape, dtype, mode) <= TOLERANCE[dtype]


@pytest.mark.parametrize("mode", ["hidden", "barrier"])
def test_a_call_that_does_not_declare_its_write_is_dropped(compiled, mode):
    assert "triton_kernel_call" not in compiled(scaling.lower, mode)


@pytest.mark.parametrize("mode", ["aliased", "out_of_place"])
def test_a_call_that_declares_its_write_is_kept(compiled, mode):
    assert compiled(scaling.lower, mode).count("@triton_kernel_call") == 1


def test_the_trivial_operations_are_refused_without_an_output(compiled):
    with pytest.raises(ValueError, match="mode other than 'trivial'"):
        compiled(scaling.lower, "trivial")


def test_a_factor_for_each_element_is_refused(compiled):
    with pytest.raises(ValueError, match=r"factor of shape \(\) but got factor.shape=\(3,\)"):
        compiled(scaling.lower, "aliased", jax.ShapeDtypeStruct((3,), np.float32))
