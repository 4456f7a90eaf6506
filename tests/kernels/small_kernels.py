"""Code that tests/kernels runs in the other process: kernels rebuilt from bug reports, as differences by output."""

from functools import partial
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from differences import Errors, compute_relative_error, draw_logits
from jax.experimental import pallas as pl

from kernels.accumulate.api import add_sum
from kernels.add_scaled.api import add_scaled
from kernels.cross_entropy.reference import cross_entropy
from kernels.partial_write.api import leave, multiply_range
from kernels.permute_rows.api import permute_rows
from kernels.scale.api import scale_by_address
from kernels.seed_flce import pallas as cross_entropy_pallas
from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient


def compare_add_sum(size: int) -> Errors:
    """Adds the sum to a number that is not zero."""
    values, total = jax.random.uniform(jax.random.key(0), (size,)), jnp.full((1,), 7.0)
    copy, actual = add_sum(values, total)
    return {"copy": compute_relative_error(copy, values), "total": compute_relative_error(actual, total + values.sum())}


def compare_add_scaled(size: int, mode: str) -> Errors:
    """Updates a search direction."""
    residual, direction = jax.random.normal(jax.random.key(0), (2, size))
    squares, updated = add_scaled(residual, jnp.float32(-0.7), direction, mode=mode)
    expected = residual - 0.7 * direction
    return {
        "squares": compute_relative_error(squares, (expected * expected).sum()),
        "updated": compute_relative_error(updated, expected),
    }


def compare_permute_rows(columns: int) -> float:
    """Permutes seven rows at random, out of place."""
    values = jax.random.normal(jax.random.key(0), (7, columns))
    source = jax.random.permutation(jax.random.key(1), 7)
    return compute_relative_error(permute_rows(values, source), values[source])


def compare_scale_by_address(size: int, mode: str) -> Errors:
    """Compares the product, and the sum of the old contents."""
    values = jax.random.uniform(jax.random.key(0), (size,))
    total, scaled = scale_by_address(values, jnp.float32(3.0), mode=mode)
    return {
        "total": compute_relative_error(total, values.sum()),
        "scaled": compute_relative_error(scaled, 3.0 * values),
    }


def compute_range(start: int, end: int, backend: str) -> list[float]:
    """Multiplies the numbers 0 to 7 by ten from `start` to `end`."""
    with patch.object(pl, "pallas_call", partial(pl.pallas_call, interpret=True)):
        product = multiply_range(jnp.arange(8.0), jnp.full((8,), 10.0), start, end, backend=backend)
    return np.asarray(product).tolist()


def compute_left() -> list[list[float]]:
    """Returns the outputs of a kernel that stores nothing."""
    with patch.object(pl, "pallas_call", partial(pl.pallas_call, interpret=True)):
        return [np.asarray(array).tolist() for array in leave(jnp.arange(4.0), jnp.full((4,), 2.0))]


def compare_pallas_cross_entropy(*, mode: str = "aliased", ignore_index: int = -100, **options: Any) -> Errors:
    """Compares loss and gradient of the Pallas kernel; one row is ignored."""
    logits, targets = draw_logits(6, 32, "float32", ignore_index)
    with patch.object(pl, "pallas_call", partial(pl.pallas_call, interpret=True)):
        loss, gradient = cross_entropy_with_gradient(
            logits, targets, mode=mode, ignore_index=ignore_index, launch=cross_entropy_pallas.launch, **options
        )

    def summed(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss = cross_entropy(logits, targets, ignore_index=ignore_index, **options)
        return loss.sum(), loss

    (_, expected_loss), expected = jax.value_and_grad(summed, has_aux=True)(logits)
    return {
        "loss": compute_relative_error(loss, expected_loss),
        "logits": compute_relative_error(gradient, expected),
    }


def compute_pallas_row(target: int) -> tuple[float, Any]:
    """Returns loss and gradient of one row."""
    with patch.object(pl, "pallas_call", partial(pl.pallas_call, interpret=True)):
        loss, gradient = cross_entropy_with_gradient(
            jnp.arange(8.0)[None], jnp.array([target]), launch=cross_entropy_pallas.launch
        )
    return float(loss), np.asarray(gradient)


def refuse(name: str, mode: str) -> None:
    """Calls a function in a mode that it refuses."""
    values = jnp.ones((4, 4))
    match name:
        case "add_sum":
            add_sum(values[0], values[0, :1], mode=mode)
        case "permute_rows":
            permute_rows(values, jnp.arange(4), mode=mode)
        case "multiply_range":
            multiply_range(values[0], values[1], 1, 3, mode=mode)
        case _:
            cross_entropy_with_gradient(values, jnp.zeros(4, int), mode=mode, launch=cross_entropy_pallas.launch)
