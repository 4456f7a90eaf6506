"""Compares the norms, gated units, rotary embedding and divergences, run by Triton's interpreter, with plain jnp in
f32.
"""

import gradients
import numpy as np
import pytest
from differences import Errors

TOLERANCE = {
    "float32": 1e-5,  # sums of a few dozen terms, each rounded by 6e-8
    "bfloat16": 2**-7 + 2**-8,  # two roundings; the kernel's is a truncation in the interpreter
    "float16": 2**-10,  # the same two, each by at most 2**-11
}
ROWS = (5, 37)
"""Not powers of two, and multiples of no block size."""
SHAPES = {
    "rms_norm": (ROWS, (37,)),
    "layer_norm": (ROWS, (37,), (37,)),
    "swiglu": (ROWS, ROWS),
    "geglu": (ROWS, ROWS),
    "rope": ((2, 2, 3, 10), (2, 2, 1, 10)),
    "kl_div": (ROWS, ROWS),
    "jsd": (ROWS, ROWS),
}
LINEAR = ((5, 7), (7, 37), (5, 9), (9, 37))
TWO_TOKENS = 2 * 37 * 8
"""Bytes of the f32 logits of student and teacher."""


def assert_close(errors: Errors, dtype: str = "float32") -> None:
    assert {name: error for name, error in errors.items() if not error < TOLERANCE[dtype]} == {}


@pytest.mark.parametrize(
    ("dtype", "mode"), [("float32", "aliased"), ("bfloat16", "aliased"), ("float16", "out_of_place")]
)
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_and_gradients_agree_with_the_reference_for_every_dtype(interpreted, name, dtype, mode):
    assert_close(interpreted(gradients.compare, name, SHAPES[name], dtype=dtype, mode=mode), dtype)


@pytest.mark.parametrize("casting", ["llama", "gemma"])
def test_a_row_in_two_blocks_is_normalized_with_an_offset_in_either_casting(interpreted, casting):
    assert_close(interpreted(gradients.compare, "rms_norm", ((2, 1300), (1300,)), casting=casting, offset=1.0))


@pytest.mark.parametrize("hidden", [1300, 8300], ids=["two blocks", "so wide that the weight is loaded for each row"])
def test_a_layer_norm_of_a_row_in_two_blocks_agrees(interpreted, hidden):
    assert_close(interpreted(gradients.compare, "layer_norm", ((3, hidden), (hidden,), (hidden,))))


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_programs_with_several_rows_sum_the_weight_s_gradient(interpreted, name):
    assert_close(interpreted(gradients.compare_with_programs, name, SHAPES[name], programs=2))


@pytest.mark.parametrize("name", ["kl_div", "jsd"])
def test_a_vocabulary_of_many_blocks_with_masked_rows_agrees(interpreted, name):
    errors = interpreted(
        gradients.compare_in_blocks, name, SHAPES[name], 16, masked=True, reduction="none", temperature=2.0
    )
    assert_close(errors)


@pytest.mark.parametrize(("beta", "reduction"), [(0.0, "sum"), (0.1, "mean"), (1.0, "sum")])
def test_a_divergence_with_any_beta_agrees_in_every_reduction(interpreted, beta, reduction):
    assert_close(interpreted(gradients.compare, "jsd", SHAPES["jsd"], beta=beta, reduction=reduction, masked=True))


@pytest.mark.parametrize("logits_bytes", [TWO_TOKENS, 10**9])
def test_chunks_of_two_tokens_and_of_all_give_the_same_result(interpreted, logits_bytes):
    assert_close(interpreted(gradients.compare, "fused_linear_jsd", LINEAR, logits_bytes=logits_bytes, masked=True))


def test_the_weight_s_gradient_can_be_summed_in_more_than_bf16(interpreted):
    errors = interpreted(
        gradients.compare, "fused_linear_jsd", LINEAR, dtype="bfloat16", accumulate="float32", logits_bytes=1
    )
    assert max(errors.values()) < 3e-2  # logits of about 3 are rounded by up to 2**-8, and so are the results


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_non_finite_value_makes_only_its_own_row_nan(interpreted, name, value):
    rows = np.arange(12.0).reshape(3, 4)
    rows[1, 2] = value
    arrays = [rows, np.ones(4), np.ones(4)][: len(SHAPES[name])]
    output, gradient = interpreted(gradients.compute, name, arrays)
    assert np.isnan(output).any(axis=1).tolist() == [False, True, False]
    assert np.isfinite(gradient).all(axis=1).tolist() == [True, False, True]


@pytest.mark.parametrize("name", ["kl_div", "jsd"])
def test_a_logit_of_minus_infinity_has_probability_zero_and_adds_nothing(interpreted, name):
    student, teacher = np.zeros((1, 4)), np.zeros((1, 4))
    teacher[0, 0] = -np.inf
    student[0, 3] = -np.inf if name == "jsd" else 0.0
    loss, gradient = interpreted(gradients.compute, name, [student, teacher])
    p = np.array([0, 1, 1, 1]) / 3
    q = np.array([1, 1, 1, 0]) / 3 if name == "jsd" else np.full(4, 0.25)
    if name == "kl_div":
        wanted, slope = np.log(4 / 3), q - p
    else:
        m = (p + q) / 2
        r = np.log(q, where=q > 0, out=np.zeros(4)) - np.log(m)
        wanted, slope = np.log(2) / 3, q * (r - (q * r).sum()) / 2
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(gradient[0], slope, rtol=1e-5, atol=1e-7)


def test_a_student_that_rules_out_the_teacher_s_choice_diverges_infinitely(interpreted):
    loss, _ = interpreted(gradients.compute, "kl_div", [[[0.0, -np.inf]], [[0.0, 0.0]]])
    assert loss == np.inf


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "swiglu", "geglu", "kl_div", "jsd"])
def test_zero_rows_give_empty_outputs(interpreted, name):
    shapes = [(0, 4)] + [(0, 4) if shape == ROWS else (4,) for shape in SHAPES[name][1:]]
    *_, gradient = interpreted(gradients.compute, name, [np.zeros(shape) for shape in shapes])
    assert gradient.shape == (0, 4)


@pytest.mark.parametrize(
    ("name", "shapes", "options", "message"),
    [
        ("rms_norm", ((2, 4), (3,)), {}, r"got input\.shape=\(2, 4\) weight\.shape=\(3,\)"),
        ("rms_norm", ((2, 4), (4,)), {"casting": "none"}, "Expected one of llama, gemma but got casting='none'"),
        ("rms_norm", ((2, 4), (4,)), {"epsilon": -1.0}, "got epsilon=-1.0"),
        ("layer_norm", ((2, 4), (4,), (3,)), {}, r"bias\.shape=\(3,\)"),
        ("layer_norm", ((2, 4), (4,), (4,)), {"mode": "inplace"}, "'inplace' is not a valid Mode"),
        ("swiglu", ((2, 4), (2, 3)), {}, r"value\.shape=\(2, 3\)"),
        ("rope", ((2, 3, 5), (2, 1, 5), (2, 2), (2, 2)), {}, "an even size"),
        ("rope", ((2, 3, 4), (2, 1, 4), (3, 2), (3, 2)), {}, "Expected cosines"),
        ("kl_div", ((2, 4), (2, 5)), {}, r"teacher_logits\.shape=\(2, 5\)"),
        ("kl_div", ((2, 4), (2, 4)), {"temperature": 0.0}, "got temperature=0.0"),
        ("jsd", ((2, 4), (2, 4)), {"beta": 1.5}, "got beta=1.5"),
        ("jsd", ((2, 4), (2, 4)), {"reduction": "max"}, "got reduction='max'"),
        ("fused_linear_jsd", LINEAR, {"reduction": "none"}, "got reduction='none'"),
        ("fused_linear_jsd", LINEAR, {"logits_bytes": 0}, "got logits_bytes=0"),
        ("fused_linear_jsd", (*LINEAR[:3], (9, 36)), {}, r"teacher_weight\.shape=\(9, 36\)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(interpreted, name, shapes, options, message):
    with pytest.raises(ValueError, match=message):
        interpreted(gradients.compute, name, [np.zeros(shape) for shape in shapes], **options)
