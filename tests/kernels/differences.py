"""What the kernels' tests run in the other process: a kernel against its reference, as relative errors by output."""

from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from kernels.cross_entropy import api as cross_entropy_api
from kernels.cross_entropy import reference as cross_entropy_reference
from kernels.cross_entropy import triton as cross_entropy_triton
from kernels.fused_linear_cross_entropy import api as fused_api
from kernels.fused_linear_cross_entropy import reference as fused_reference
from kernels.fused_linear_cross_entropy.shapes import Shape

type Errors = dict[str, float]


def compute_relative_error(actual: Any, expected: Any) -> float:
    """Returns |actual - expected| / |expected| in the Euclidean norm, |actual| where nothing is expected."""
    actual, expected = (np.asarray(array).astype(np.float64) for array in (actual, expected))
    assert actual.shape == expected.shape
    return float(np.linalg.norm(actual - expected) / (np.linalg.norm(expected) or 1.0))


def draw_logits(rows: int, vocabulary: int, dtype: str, ignore_index: int) -> tuple[jax.Array, jax.Array]:
    """Returns logits, some of them large, and targets of which the second is ignored."""
    logits = (4 * jax.random.normal(jax.random.key(0), (rows, vocabulary))).astype(dtype)
    targets = jax.random.randint(jax.random.key(1), (rows,), 0, vocabulary)
    return logits, targets.at[1].set(ignore_index)


def compare_cross_entropy(
    *, rows: int = 5, vocabulary: int = 37, dtype: str = "float32", max_block: int = 32768, **options: Any
) -> Errors:
    """Differentiates 3 * loss, or for reduction `none` a sum in which every row has a weight of its own."""
    logits, targets = draw_logits(rows, vocabulary, dtype, options.get("ignore_index", -100))
    weights = 3.0 if options.get("reduction") != "none" else jnp.arange(1.0, rows + 1)

    def weighted(function: Any, logits: jax.Array, **options: Any) -> jax.Array:
        return (weights * function(logits, targets, **options)).sum()

    with patch.object(cross_entropy_triton, "MAX_BLOCK", max_block):
        loss, gradient = jax.value_and_grad(weighted, argnums=1)(cross_entropy_api.cross_entropy, logits, **options)
    options.pop("mode", None)
    expected_loss, expected_gradient = jax.value_and_grad(weighted, argnums=1)(
        cross_entropy_reference.cross_entropy, logits.astype(jnp.float32), **options
    )
    assert gradient.dtype == logits.dtype
    return {
        "loss": compute_relative_error(loss, expected_loss),
        "logits": compute_relative_error(gradient, expected_gradient),
    }


def compute_cross_entropy(logits: Any, targets: Any, *, max_block: int = 32768, **options: Any) -> tuple[Any, Any]:
    """Returns loss and gradient, f32, without autodiff, as NumPy arrays."""
    with patch.object(cross_entropy_triton, "MAX_BLOCK", max_block):
        results = cross_entropy_api.cross_entropy_with_gradient(
            jnp.asarray(logits, jnp.float32), jnp.asarray(targets, jnp.int32), **options
        )
        return tuple(np.asarray(result) for result in results)


def compare_fused(
    shape: Shape,
    *,
    dtype: str = "float32",
    bias: bool = True,
    mask: bool = True,
    ignored: bool = False,
    autodiff: bool = True,
    **options: Any,
) -> Errors:
    """Differentiates 3 * loss; without `autodiff` takes loss and gradients from the kernel as they are.

    Draws bf16 logits of standard deviation 1, so that their rounding does not drown what is compared.
    """
    tokens = (shape.batch, shape.context)
    keys = [jax.random.key(i) for i in range(5)]
    x = (jax.random.normal(keys[0], (*tokens, shape.embedding)) / shape.embedding**0.5).astype(dtype)
    y = jax.random.randint(keys[1], tokens, 0, shape.vocabulary)
    if ignored:
        y = jnp.full_like(y, -100)
    target_mask = jax.random.bernoulli(keys[2], 0.7, tokens) if mask else None
    parameters = (
        jax.random.normal(keys[3], (shape.embedding, shape.vocabulary)),
        jax.random.normal(keys[4], (shape.vocabulary,)) if bias else None,
    )

    def weighted(function: Any, x: jax.Array, weight: jax.Array, bias: Any, **options: Any) -> jax.Array:
        return 3 * function(x, weight, y, bias, target_mask=target_mask, **options)

    differentiate = jax.value_and_grad(weighted, argnums=(1, 2, 3))
    scale = 3.0
    if autodiff:
        loss, gradients = jax.jit(lambda *a: differentiate(fused_api.fused_linear_cross_entropy, *a, **options))(
            x, *parameters
        )
    else:
        scale = 1.0
        named = fused_api.fused_linear_cross_entropy_with_gradients(
            x, parameters[0], y, parameters[1], target_mask=target_mask, **options
        )
        loss, gradients = named["loss"], (named["input"], named["weight"], named.get("bias"))
    options.pop("mode", None)
    expected_loss, expected = differentiate(fused_reference.fused_linear_cross_entropy, x, *parameters, **options)
    errors = {"loss": compute_relative_error(loss, expected_loss / 3 * scale)}
    for name, array, gradient, reference in zip(
        ("input", "weight", "bias"), (x, *parameters), gradients, expected, strict=True
    ):
        if array is not None:
            assert gradient.dtype == array.dtype
            errors[name] = compute_relative_error(gradient, reference.astype(jnp.float32) / 3 * scale)
    return errors
