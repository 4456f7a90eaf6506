"""Compares the fused linear cross entropy, its kernels run by Triton's interpreter, with plain jnp in f32."""

import differences
import pytest

from kernels.fused_linear_cross_entropy.chunks import split_tokens
from kernels.fused_linear_cross_entropy.shapes import REMAINDER, SEED_SMALL, Shape

TOLERANCE = {
    "float32": 1e-5,  # sums of a few dozen products, each rounded by 6e-8
    "bfloat16": 2e-2,  # logits of about 1 rounded by up to 2**-8; gradient, products and sums as well
    "float16": 2e-2 / 8,  # likewise, by 2**-11
}
ALL = {"label_smoothing": 0.1, "logit_soft_cap": 2.0, "z_loss": 0.01}


def assert_close(errors: differences.Errors, dtype: str = "float32") -> None:
    assert {name: error for name, error in errors.items() if not error < TOLERANCE[dtype]} == {}


@pytest.mark.parametrize(
    ("dtype", "chunk", "options"),
    [
        ("float32", None, {}),
        ("float32", 3, {"mode": "out_of_place", "reduction": "sum", **ALL}),
        ("bfloat16", None, {"where": False}),
        ("bfloat16", 3, {"accumulate": "f32", **ALL}),
        ("float16", 3, {"bias": False, "cotangent": 1024.0}),
    ],
    ids=["one chunk", "three chunks, all options", "bf16", "bf16, sums in f32", "f16, scaled loss"],
)
def test_loss_and_gradients_agree_with_the_reference(interpreted, dtype, chunk, options):
    errors = interpreted(differences.compare_fused, REMAINDER, dtype=dtype, chunk=chunk, **options)
    bias = {"bias"} if options.get("bias", True) else set()
    assert errors.keys() == {"loss", "lse", "input", "weight"} | bias
    assert_close(errors, dtype)


def test_each_token_s_loss_has_the_gradients_of_its_own_cotangent(interpreted):
    assert_close(interpreted(differences.compare_fused, REMAINDER, chunk=3, reduction="none", **ALL))


def test_a_batch_of_ignored_targets_has_zero_loss_and_gradients(interpreted):
    errors = interpreted(differences.compare_fused, SEED_SMALL, ignored=True)
    assert set(errors.values()) == {0.0}


def test_without_a_gradient_only_the_logits_are_computed(interpreted):
    # the logits and the gradients of input and weight, in the first chunk and in the loop over the others
    assert interpreted(differences.count_products, differentiated=False) == 2
    assert interpreted(differences.count_products, differentiated=True) == 6


@pytest.mark.parametrize("most", [1, 2, 3, 100, 255, 256, 300, 2093])
def test_chunks_cover_all_tokens_within_the_requested_size(most):
    for tokens in [*range(1, 70), 255, 256, 257, 511, 513, 600, 4096, 5000, 8192, 10_007]:
        first, size, count = split_tokens(tokens, most)
        assert first + size * count == tokens
        assert 0 < first <= most
        assert size <= most


def test_chunks_are_multiples_of_256_tokens_of_similar_size():
    assert split_tokens(4096, 2093) == (2048, 2048, 1)
    assert split_tokens(8192, 2093) == (2048, 2048, 3)
    assert split_tokens(5000, 2093) == (1416, 1792, 2)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        (((2, 4), (3, 8), (2,)), {}, r"input\.shape=\(2, 4\) weight\.shape=\(3, 8\)"),
        (((2, 4), (4, 0), (2,)), {}, r"a vocabulary of at least 1 but got weight\.shape=\(4, 0\)"),
        (((2, 4), (4, 8), (2,)), {"accumulate": "f64"}, "Expected one of input, f32 but got accumulate='f64'"),
        (((2, 4), (4, 8), (2,)), {"logits_bytes": 0}, "at least 1 byte but got logits_bytes=0"),
    ],
    ids=["shapes", "no vocabulary", "accumulate", "no bytes"],
)
def test_arguments_that_do_not_fit_are_refused(interpreted, shapes, options, message):
    with pytest.raises(ValueError, match=message):
        interpreted(differences.refuse_fused, *shapes, **options)


def test_an_odd_shape_agrees(interpreted):
    assert_close(interpreted(differences.compare_fused, Shape(1, 1, 5, 3)))
