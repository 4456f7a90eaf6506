"""The fused linear cross entropy, its kernel run by Triton's interpreter, against plain jnp in f32."""

import differences
import pytest

from kernels.fused_linear_cross_entropy.shapes import REMAINDER, SEED_SMALL, Shape

ONE_SHORT_CHUNK = Shape(1, 3, 16, 16)
"""3 tokens in chunks of 4: no full chunk at all."""

TOLERANCE = {
    "float32": 1e-5,  # sums of some dozens of products, each rounded by 6e-8
    "bfloat16": 2e-2,  # logits of about 1 rounded by up to 2**-8; gradient, alpha, products and sums as well
    "float16": 2e-2 / 8,  # likewise, by 2**-11
}


def assert_close(errors: differences.Errors, dtype: str = "float32") -> None:
    assert {name: error for name, error in errors.items() if not error < TOLERANCE[dtype]} == {}


@pytest.mark.parametrize("mode", ["aliased", "out_of_place"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_loss_and_gradients_agree_with_the_reference_in_every_dtype(interpreted, dtype, bias, mode):
    errors = interpreted(differences.compare_fused, SEED_SMALL, dtype=dtype, bias=bias, mode=mode)
    assert errors.keys() == {"loss", "input", "weight"} | ({"bias"} if bias else set())
    assert_close(errors, dtype)


@pytest.mark.parametrize("shape", [REMAINDER, ONE_SHORT_CHUNK, Shape(2, 9, 64, 4), Shape(1, 1, 5, 3)])
@pytest.mark.parametrize("mask", [False, True])
def test_a_last_chunk_of_any_size_counts_like_every_other(interpreted, shape, mask):
    assert_close(interpreted(differences.compare_fused, shape, mask=mask))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("autodiff", [False, True])
def test_agrees_in_every_reduction_and_smoothing_with_and_without_autodiff(
    interpreted, reduction, label_smoothing, autodiff
):
    errors = interpreted(
        differences.compare_fused,
        REMAINDER,
        reduction=reduction,
        label_smoothing=label_smoothing,
        autodiff=autodiff,
    )
    assert_close(errors)


def test_a_batch_of_ignored_targets_has_loss_and_gradients_zero(interpreted):
    errors = interpreted(differences.compare_fused, REMAINDER, ignored=True)
    assert set(errors.values()) == {0.0}


def test_losses_that_are_not_summed_are_refused(interpreted):
    with pytest.raises(ValueError, match="Expected one of mean, sum but got reduction='none'"):
        interpreted(differences.compare_fused, SEED_SMALL, reduction="none")
