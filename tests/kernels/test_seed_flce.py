"""Compares the seed's fused linear cross entropy, its kernel run by Triton's interpreter, with plain jnp in f32."""

import differences
import pytest

from kernels.fused_linear_cross_entropy.shapes import REMAINDER, SEED_SMALL, Shape

TOLERANCE = {
    "float32": 1e-5,  # sums of a few dozen products, each rounded by 6e-8
    "bfloat16": 2e-2,  # logits of about 1 rounded by up to 2**-8; gradient, alpha, products and sums as well
    "float16": 2e-2 / 8,  # likewise, by 2**-11
}


def assert_close(errors: differences.Errors, dtype: str = "float32") -> None:
    assert {name: error for name, error in errors.items() if not error < TOLERANCE[dtype]} == {}


@pytest.mark.parametrize(
    ("dtype", "bias", "mode"),
    [("float32", True, "aliased"), ("bfloat16", False, "aliased"), ("float16", True, "out_of_place")],
)
def test_loss_and_gradients_agree_with_the_reference_in_every_dtype(interpreted, dtype, bias, mode):
    errors = interpreted(differences.compare_seed, SEED_SMALL, dtype=dtype, bias=bias, mode=mode)
    assert errors.keys() == {"loss", "input", "weight"} | ({"bias"} if bias else set())
    assert_close(errors, dtype)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        (REMAINDER, {"reduction": "sum", "autodiff": False}),
        (REMAINDER, {"label_smoothing": 0.1}),
        (Shape(1, 3, 16, 16), {"where": False, "autodiff": False}),
    ],
    ids=["sum", "smoothing", "no full chunk"],
)
def test_a_last_chunk_of_any_size_counts_like_the_others(interpreted, shape, options):
    assert_close(interpreted(differences.compare_seed, shape, **options))


def test_unreduced_losses_are_refused(interpreted):
    with pytest.raises(ValueError, match="Expected one of mean, sum but got reduction='none'"):
        interpreted(differences.compare_seed, SEED_SMALL, reduction="none")
