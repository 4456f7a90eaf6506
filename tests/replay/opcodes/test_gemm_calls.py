"""Compares cuBLAS matrix products with the formula in f64, for configurations that XLA wrote for real programs.

f32 sums k products: a few ulp times sqrt(k), relative to the largest element.
"""

import json
import math
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.xla_cpu import evaluate_module, parse_text

M, K, N = 5, 33, 7
NUMBERS = {
    "lhs_contracting_dimensions": ["1"],
    "rhs_contracting_dimensions": ["0"],
    "lhs_batch_dimensions": [],
    "rhs_batch_dimensions": [],
}
TOLERANCE = 4 * 2**-23 * math.sqrt(K)
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "s32": np.int32, "c64": np.complex64}


def draw(*shape: int, seed: int = 0, dtype: str = "f32") -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(DTYPES[dtype])


def call(operands: list[Any], result: str, target: str = "__cublas$lt$matmul", **changes: Any) -> Any:
    """Evaluates one call with a modified configuration of XLA's."""
    config = {
        "alpha_real": 1,
        "alpha_imag": 0,
        "beta": 0,
        "dot_dimension_numbers": NUMBERS,
        "precision_config": {"operand_precision": ["DEFAULT", "DEFAULT"], "algorithm": "ALG_UNSET"},
        "epilogue": "DEFAULT",
        "grad_x": False,
        "grad_y": False,
        "damax_output": False,
        "scale_mode": 0,
        **changes,
    }
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    shapes = [f"{names[o.dtype]}[{','.join(map(str, o.shape))}]" for o in operands]
    parameters = "\n".join(f"p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes))
    used = ", ".join(f"p{i}" for i in range(len(operands)))
    text = f"""HloModule m
ENTRY e {{ {parameters}
ROOT r = {result} custom-call({used}), custom_call_target="{target}",
  backend_config={json.dumps({"gemm_backend_config": config})} }}"""
    return evaluate_module(parse_text(text), operands)


def error(found: Any, expected: Any) -> float:
    """Returns the largest error relative to the largest element."""
    wide = np.asarray(expected, np.float64)
    return float(np.max(np.abs(np.asarray(found, np.float64) - wide)) / np.max(np.abs(wide)))


def gelu(x: Any) -> Any:
    return np.asarray(jax.nn.gelu(x, approximate=True))


ACTIVATIONS = {
    "DEFAULT": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "GELU": gelu,
    "SILU": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("beta", [0, 0.5])
def test_an_epilogue_follows_the_scaled_sum(activation: str, bias: bool, beta: float) -> None:
    lhs, rhs, matrix, vector = draw(M, K), draw(K, N, seed=1), draw(M, N, seed=2), draw(N, seed=3)
    operands = [lhs, rhs, *([matrix] if beta else []), *([vector] if bias else [])]
    name = activation if not bias else "BIAS" if activation == "DEFAULT" else f"BIAS_{activation}"
    found, workspace = call(operands, f"(f32[{M},{N}], s8[64])", epilogue=name, beta=beta, alpha_real=2)
    total = 2 * lhs.astype(np.float64) @ rhs.astype(np.float64) + beta * matrix + (vector if bias else 0)
    assert found.dtype == np.float32
    assert error(found, ACTIVATIONS[activation](total)) < TOLERANCE
    assert workspace.dtype == np.int8
    assert not workspace.any()


@pytest.mark.parametrize("name", ["GELU_AUX", "BIAS_GELU_AUX"])
def test_the_auxiliary_output_is_the_input_of_the_activation(name: str) -> None:
    lhs, rhs, vector = draw(M, K), draw(K, N, seed=1), draw(N, seed=3)
    bias = name.startswith("BIAS")
    shape = f"f32[{M},{N}]"
    found, entered, _ = call([lhs, rhs, *([vector] if bias else [])], f"({shape}, {shape}, s8[8])", epilogue=name)
    total = lhs.astype(np.float64) @ rhs.astype(np.float64) + (vector if bias else 0)
    assert error(entered, total) < TOLERANCE
    assert error(found, gelu(total)) < TOLERANCE


def test_a_narrow_result_is_rounded_after_the_bias_not_before() -> None:
    # 256 + 1 would round to 256, and 256.5 after it to 256 again; bf16 has nothing between 256 and 258
    lhs, rhs = np.array([[256, 1]], DTYPES["bf16"]), np.ones((2, 1), DTYPES["bf16"])
    found = call([lhs, rhs, np.array([0.5], DTYPES["bf16"])], "bf16[1,1]", epilogue="BIAS")
    assert float(found[0, 0]) == 258


def test_batch_dimensions_may_be_anywhere() -> None:
    # as XLA splits the long contraction of a gradient: bf16[256,8,6288] x bf16[1024,8,6288] -> f32[8,256,1024]
    lhs, rhs = draw(4, 3, 10, dtype="bf16"), draw(6, 3, 10, seed=1, dtype="bf16")
    numbers = {
        "lhs_contracting_dimensions": ["2"],
        "rhs_contracting_dimensions": ["2"],
        "lhs_batch_dimensions": ["1"],
        "rhs_batch_dimensions": ["1"],
    }
    found, _ = call([lhs, rhs], "(f32[3,4,6], s8[33554432])", dot_dimension_numbers=numbers)
    assert error(found, np.einsum("mbk,nbk->bmn", lhs.astype(float), rhs.astype(float))) < TOLERANCE


def test_the_older_call_and_a_result_without_workspace_compute_the_same() -> None:
    lhs, rhs = draw(M, K), draw(K, N, seed=1)
    shape = f"f32[{M},{N}]"
    plain = call([lhs, rhs], shape, target="__cublas$gemm")
    np.testing.assert_array_equal(plain, call([lhs, rhs], f"({shape}, s8[8])")[0])
    np.testing.assert_array_equal(plain, lhs @ rhs)


def test_integers_are_exact_and_a_complex_factor_counts() -> None:
    a, b = draw(M, K), draw(K, N, seed=1)
    lhs, rhs = (x.astype(np.int8) for x in (a * 40, b * 40))
    np.testing.assert_array_equal(call([lhs, rhs], f"s32[{M},{N}]"), lhs.astype(np.int32) @ rhs.astype(np.int32))
    found = call([a.astype(np.complex64), b.astype(np.complex64)], f"c64[{M},{N}]", alpha_real=0, alpha_imag=2)
    assert error(found.imag, 2 * a.astype(float) @ b.astype(float)) < TOLERANCE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epilogue": "RELU_AUX"}, "epilogue RELU_AUX"),
        ({"epilogue": "BIASED"}, "epilogue BIASED"),
        ({"grad_x": True}, "grad_x"),
        ({"damax_output": True}, "damax_output"),
        ({"epilogue": "BIAS"}, "matmul with 2 operands"),
    ],
)
def test_an_unknown_form_of_matmul_is_not_covered(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotCoveredError, match=message):
        call([draw(M, K), draw(K, N)], f"f32[{M},{N}]", **changes)


def test_a_matmul_of_eight_bit_floats_is_not_covered() -> None:
    with pytest.raises(NotCoveredError, match=r"custom-call __cublas\$lt\$matmul\$f8"):
        call([draw(M, K), draw(K, N)], f"f32[{M},{N}]", target="__cublas$lt$matmul$f8")
