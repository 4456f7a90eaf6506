"""Compares the cross entropy kernels, run by Triton's interpreter, with plain jnp in f32."""

import differences
import numpy as np
import pytest

TOLERANCE = {
    "float32": 1e-5,  # a few dozen roundings of 6e-8 in sums over the row
    "bfloat16": 2**-7 + 2**-8,  # the kernel's store, which the interpreter truncates, and the cotangent's product
    "float16": 2**-10,  # the same two, each rounded by at most 2**-11
}
ALL = {"label_smoothing": 0.1, "logit_soft_cap": 5.0, "z_loss": 0.01, "masked": True}


def assert_close(errors: differences.Errors, dtype: str = "float32") -> None:
    """Loss and logsumexp are f32 for logits of any type."""
    tolerances = {name: TOLERANCE[dtype if name == "logits" else "float32"] for name in errors}
    assert {name: error for name, error in errors.items() if not error < tolerances[name]} == {}


@pytest.mark.parametrize("mode", ["aliased", "out_of_place"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_agrees_with_the_reference_for_every_dtype(interpreted, dtype, mode):
    assert_close(interpreted(differences.compare_cross_entropy, dtype=dtype, mode=mode), dtype)


@pytest.mark.parametrize("vocabulary", [1, 16, 33, 129])
def test_agrees_for_a_vocabulary_of_one_block_many_blocks_or_part_of_a_block(interpreted, vocabulary):
    assert_close(interpreted(differences.compare_cross_entropy, vocabulary=vocabulary, block=16))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "options",
    [{"label_smoothing": 1.0}, {"logit_soft_cap": 3.0}, {"z_loss": 0.1}, ALL],
    ids=["smoothing", "cap", "z", "all"],
)
def test_honours_the_cotangent_with_every_option_in_every_reduction(interpreted, reduction, options):
    assert_close(interpreted(differences.compare_cross_entropy, reduction=reduction, block=16, **options))


def test_small_gradients_in_f16_are_not_lost_to_a_mean_over_many_rows(interpreted):
    # they are about 4e-4 before the division by 64; after it, subnormals of 7 bits
    errors = interpreted(
        differences.compare_cross_entropy,
        rows=64, vocabulary=256, dtype="float16", deviation=0.1, label_smoothing=1.0,
    )  # fmt: skip
    assert_close(errors, "float16")


@pytest.mark.parametrize("ignore_index", [-1, 2])
def test_any_index_can_be_ignored_even_one_in_the_vocabulary(interpreted, ignore_index):
    errors = interpreted(differences.compare_cross_entropy, vocabulary=4, rows=12, ignore_index=ignore_index)
    assert_close(errors)


def test_a_batch_of_ignored_rows_has_zero_loss_and_gradient_whatever_it_contains(interpreted):
    logits = np.full((3, 20), np.nan)
    loss, gradient, alone = interpreted(differences.compute_cross_entropy, logits, np.full((3,), -100))
    assert loss == alone == 0
    assert not gradient.any()


def test_a_row_whose_first_blocks_are_minus_infinity_has_a_finite_loss(interpreted):
    logits = np.full((1, 8), -np.inf)
    logits[0, 6:] = 1.0
    loss, gradient, alone = interpreted(differences.compute_cross_entropy, logits, [7], block=2)
    np.testing.assert_allclose([loss, alone], np.log(2), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0, 0, 0, 0, 0, 0, 0.5, -0.5]], rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_nan_or_infinite_logit_makes_only_its_own_row_nan(interpreted, value):
    logits = np.zeros((3, 8))
    logits[1, 5] = value
    losses, gradient, alone = interpreted(
        differences.compute_cross_entropy, logits, [0, 1, 7], reduction="none", block=4
    )
    assert np.isnan(losses).tolist() == np.isnan(alone).tolist() == [False, True, False]
    assert np.isnan(gradient).any(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize("target", [8, -1, 2**31 - 1])
def test_a_target_outside_the_vocabulary_makes_only_its_own_row_nan(interpreted, target):
    logits = np.zeros((3, 8))
    loss, gradient, alone = interpreted(differences.compute_cross_entropy, logits, [0, target, 7], reduction="none")
    assert np.isnan(loss).tolist() == np.isnan(alone).tolist() == [False, True, False]
    assert np.isnan(gradient).all(axis=1).tolist() == [False, True, False]
    assert np.isfinite(gradient[[0, 2]]).all()


def test_zero_tokens_have_zero_loss_and_gradients(interpreted):
    loss, gradient, fused_loss, grad_input, grad_weight = interpreted(differences.differentiate_nothing)
    assert loss == fused_loss == 0
    assert gradient.shape == grad_input.shape == (2, 0, 4)
    assert not grad_weight.any()


@pytest.mark.parametrize("mode", ["hidden", "trivial", "barrier"])
def test_a_hidden_write_is_refused_if_there_is_nothing_to_overwrite(interpreted, mode):
    with pytest.raises(ValueError, match=f"TRITON_INTERPRET=1 but got mode='{mode}'"):
        interpreted(differences.compute_cross_entropy, np.zeros((1, 4)), [0], mode=mode)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "inplace"}, "got mode='inplace'"),
        ({"reduction": "max"}, "Expected one of mean, sum, none but got reduction='max'"),
        ({"label_smoothing": 1.5}, "got label_smoothing=1.5"),
        ({"logit_soft_cap": 0.0}, "got logit_soft_cap=0.0"),
        ({"z_loss": -1.0}, "got z_loss=-1.0"),
        ({"where": np.ones((2,), bool)}, r"where\.shape=\(2,\)"),
    ],
)
def test_an_unknown_option_is_refused_by_name(interpreted, options, message):
    with pytest.raises(ValueError, match=message):
        interpreted(differences.compute_cross_entropy, np.zeros((1, 4)), [0], **options)


@pytest.mark.parametrize(("logits", "targets"), [((2, 4), (3,)), ((2, 0), (2,))])
def test_shapes_that_do_not_fit_are_refused(interpreted, logits, targets):
    with pytest.raises(ValueError, match=r"logits\.shape=\(\d, \d\)"):
        interpreted(differences.compute_cross_entropy, np.zeros(logits), np.zeros(targets))
