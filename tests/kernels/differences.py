"""Code that tests/kernels runs in the other process: compares a kernel with its reference, as relative errors by
output.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from kernels.cross_entropy import api as cross_entropy_api
from kernels.cross_entropy import launch
from kernels.cross_entropy import reference as cross_entropy_reference
from kernels.fused_linear_cross_entropy import api as fused_api
from kernels.fused_linear_cross_entropy import reference as fused_reference
from kernels.fused_linear_cross_entropy.shapes import REMAINDER, Shape
from kernels.launches import LaunchConfiguration
from kernels.seed_flce import api as seed_api

type Errors = dict[str, float]


def compute_relative_error(actual: Any, expected: Any) -> float:
    """Returns |actual - expected| / |expected| in the Euclidean norm, or |actual| if `expected` is zero."""
    actual, expected = (np.asarray(array).astype(np.float64) for array in (actual, expected))
    assert actual.shape == expected.shape
    return float(np.linalg.norm(actual - expected) / (np.linalg.norm(expected) or 1.0))


def draw_logits(
    rows: int, vocabulary: int, dtype: str, ignore_index: int, deviation: float = 4.0
) -> tuple[jax.Array, jax.Array]:
    """Returns random logits, some of them large, and targets of which the second is ignored."""
    logits = (deviation * jax.random.normal(jax.random.key(0), (rows, vocabulary))).astype(dtype)
    targets = jax.random.randint(jax.random.key(1), (rows,), 0, vocabulary)
    return logits, targets.at[1].set(ignore_index)


@contextmanager
def blocks_of(elements: int | None) -> Iterator[None]:
    """Launches the cross entropy kernels with blocks of this many f32 elements."""
    if elements is None:
        yield
        return
    configuration = LaunchConfiguration(block_bytes=4 * elements, warps=4)
    with patch.object(launch, "find_launch", lambda _: configuration):
        yield


def compare_cross_entropy(
    *,
    rows: int = 5,
    vocabulary: int = 37,
    dtype: str = "float32",
    deviation: float = 4.0,
    block: int | None = None,
    **options: Any,
) -> Errors:
    """Differentiates 3 * loss, or for reduction `none` a sum in which every row has its own weight.

    Compares the losses of the kernels with and without the gradient, and the logsumexp.
    """
    logits, targets = draw_logits(rows, vocabulary, dtype, options.get("ignore_index", -100), deviation)
    weights = 3.0 if options.get("reduction") != "none" else jnp.arange(1.0, rows + 1)
    if options.pop("masked", False):
        options["where"] = jnp.arange(rows) != 3

    def weighted(function: Any, logits: jax.Array, **options: Any) -> tuple[jax.Array, jax.Array]:
        loss, lse = function(logits, targets, return_lse=True, **options)
        return (weights * loss).sum(), lse

    differentiate = jax.value_and_grad(weighted, argnums=1, has_aux=True)
    with blocks_of(block):
        (loss, lse), gradient = differentiate(cross_entropy_api.cross_entropy, logits, **options)
        alone, lse_alone = weighted(cross_entropy_api.cross_entropy, logits, **options)
    options.pop("mode", None)
    (expected_loss, expected_lse), expected = differentiate(
        cross_entropy_reference.cross_entropy, logits.astype(jnp.float32), **options
    )
    assert gradient.dtype == logits.dtype
    return {
        "loss": max(compute_relative_error(one, expected_loss) for one in (loss, alone)),
        "lse": max(compute_relative_error(one, expected_lse) for one in (lse, lse_alone)),
        "logits": compute_relative_error(gradient, expected),
    }


def compute_cross_entropy(logits: Any, targets: Any, *, block: int | None = None, **options: Any) -> tuple[Any, ...]:
    """Returns loss and gradient in f32 without autodiff, and the loss without gradient, as NumPy arrays."""
    arrays = jnp.asarray(logits, jnp.float32), jnp.asarray(targets, jnp.int32)
    with blocks_of(block):
        results = cross_entropy_api.cross_entropy_with_gradient(*arrays, **options)
        return tuple(np.asarray(result) for result in (*results, cross_entropy_api.cross_entropy(*arrays, **options)))


class Drawn(NamedTuple):
    """Random inputs. targets and where: one element for each token; arrays: input, weight, and bias or None; the
    parameters are f32.
    """

    targets: jax.Array
    where: jax.Array | None
    arrays: tuple[jax.Array, jax.Array, jax.Array | None]


def draw_layer(shape: Shape, dtype: str, *, bias: bool = True, where: bool = True) -> Drawn:
    """Draws logits of standard deviation 1, so that rounding errors do not hide the differences."""
    tokens = (shape.batch, shape.context)
    keys = [jax.random.key(i) for i in range(5)]
    x = (jax.random.normal(keys[0], (*tokens, shape.embedding)) / shape.embedding**0.5).astype(dtype)
    return Drawn(
        jax.random.randint(keys[1], tokens, 0, shape.vocabulary),
        jax.random.bernoulli(keys[2], 0.7, tokens) if where else None,
        (
            x,
            jax.random.normal(keys[3], (shape.embedding, shape.vocabulary)),
            jax.random.normal(keys[4], (shape.vocabulary,)) if bias else None,
        ),
    )


def compare_fused(
    shape: Shape,
    *,
    dtype: str = "float32",
    bias: bool = True,
    where: bool = True,
    ignored: bool = False,
    chunk: int | None = None,
    cotangent: float = 3.0,
    **options: Any,
) -> Errors:
    """Differentiates `cotangent` times the loss, or for reduction `none` a sum in which every token has its own weight.

    chunk: the largest number of tokens in a chunk. Compares the losses computed with and without the gradients, and the
    logsumexp.
    """
    targets, mask, arrays = draw_layer(shape, dtype, bias=bias, where=where)
    if ignored:
        targets = jnp.full_like(targets, -100)
    weights = cotangent
    if options.get("reduction") == "none":
        weights = jnp.linspace(-cotangent, cotangent, targets.size).reshape(targets.shape)

    def weighted(function: Any, x: jax.Array, weight: jax.Array, bias: Any, **options: Any) -> Any:
        loss, lse = function(x, weight, targets, bias, where=mask, return_lse=True, **options)
        return (weights * loss).sum(), lse

    differentiate = jax.value_and_grad(weighted, argnums=(1, 2, 3), has_aux=True)
    ours = options | ({"logits_bytes": chunk * shape.vocabulary * arrays[0].dtype.itemsize} if chunk else {})
    (loss, lse), gradients = jax.jit(lambda *a: differentiate(fused_api.fused_linear_cross_entropy, *a, **ours))(
        *arrays
    )
    alone, lse_alone = jax.jit(lambda *a: weighted(fused_api.fused_linear_cross_entropy, *a, **ours))(*arrays)
    for name in ("mode", "accumulate"):
        options.pop(name, None)
    (expected_loss, expected_lse), expected = differentiate(
        fused_reference.fused_linear_cross_entropy, *arrays, **options
    )
    return {
        "loss": max(compute_relative_error(one, expected_loss) for one in (loss, alone)),
        "lse": max(compute_relative_error(one, expected_lse) for one in (lse, lse_alone)),
    } | _compare_gradients(arrays, gradients, expected)


def compare_seed(
    shape: Shape,
    *,
    dtype: str = "float32",
    bias: bool = True,
    where: bool = True,
    autodiff: bool = True,
    **options: Any,
) -> Errors:
    """Differentiates 3 * loss; without `autodiff` takes loss and gradients directly from the kernel."""
    targets, mask, arrays = draw_layer(shape, dtype, bias=bias, where=where)

    def weighted(function: Any, x: jax.Array, weight: jax.Array, bias: Any, **options: Any) -> jax.Array:
        return 3 * function(x, weight, targets, bias, where=mask, **options)

    differentiate = jax.value_and_grad(weighted, argnums=(1, 2, 3))
    if autodiff:
        loss, gradients = jax.jit(lambda *a: differentiate(seed_api.fused_linear_cross_entropy, *a, **options))(*arrays)
    else:
        named = seed_api.fused_linear_cross_entropy_with_gradients(
            arrays[0], arrays[1], targets, arrays[2], where=mask, **options
        )
        loss, gradients = named["loss"], (named["input"], named["weight"], named.get("bias"))
    options.pop("mode", None)
    expected_loss, expected = differentiate(fused_reference.fused_linear_cross_entropy, *arrays, **options)
    if not autodiff:
        expected_loss, expected = jax.tree.map(lambda array: array.astype(jnp.float32) / 3, (expected_loss, expected))
    return {"loss": compute_relative_error(loss, expected_loss)} | _compare_gradients(arrays, gradients, expected)


def _compare_gradients(arrays: Any, gradients: Any, expected: Any) -> Errors:
    errors: Errors = {}
    for name, array, gradient, reference in zip(("input", "weight", "bias"), arrays, gradients, expected, strict=True):
        if array is not None:
            assert gradient.dtype == array.dtype
            errors[name] = compute_relative_error(gradient, reference.astype(jnp.float32))
    return errors


def count_products(*, differentiated: bool) -> int:
    """Returns the number of matrix products in the program of a fused loss of three chunks."""
    targets, mask, arrays = draw_layer(REMAINDER, "float32")

    def loss_of(*arrays: Any) -> jax.Array:
        x, weight, bias = arrays
        return fused_api.fused_linear_cross_entropy(x, weight, targets, bias, where=mask, logits_bytes=3 * 37 * 4)

    function = jax.grad(loss_of, argnums=(0, 1, 2)) if differentiated else loss_of
    return str(jax.make_jaxpr(function)(*arrays)).count("dot_general[")


def differentiate_nothing() -> tuple[Any, ...]:
    """Returns loss and gradients of both losses for zero tokens; a GPU refuses a launch of zero programs."""
    none = jnp.zeros((2, 0, 4))
    targets = jnp.zeros((2, 0), jnp.int32)
    differentiate_fused = jax.value_and_grad(fused_api.fused_linear_cross_entropy, argnums=(0, 1))
    differentiate = jax.value_and_grad(cross_entropy_api.cross_entropy)
    assert "callback" not in str(jax.make_jaxpr(differentiate_fused)(none, jnp.ones((4, 8)), targets))
    assert "callback" not in str(jax.make_jaxpr(differentiate)(none, targets))
    fused = differentiate_fused(none, jnp.ones((4, 8)), targets)
    alone = differentiate(none, targets)
    return jax.tree.map(np.asarray, (*alone, fused[0], *fused[1]))


def refuse_fused(input: Any, weight: Any, targets: Any, **options: Any) -> None:
    """Calls the fused loss with arrays of these shapes."""
    arrays = jnp.zeros(input), jnp.zeros(weight), jnp.zeros(targets, jnp.int32)
    fused_api.fused_linear_cross_entropy(*arrays, **options)
