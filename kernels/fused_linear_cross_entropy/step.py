"""Computes loss and gradients by `jax.value_and_grad`, as a training step does."""

from collections.abc import Callable
from typing import Any

import jax


def compute_loss_and_gradients_by_autodiff(  # noqa: PLR0917 - a case passes its arrays by position
    loss_function: Callable[..., jax.Array],
    input: jax.Array,
    targets: jax.Array,
    where: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    **options: Any,
) -> dict[str, jax.Array]:
    """Returns `loss` and the gradients `input`, `weight` and, if there is one, `bias`.

    loss_function: `api.fused_linear_cross_entropy` or `reference.fused_linear_cross_entropy`, called with `options`.
    """

    def loss_of(input: jax.Array, weight: jax.Array, bias: jax.Array | None) -> jax.Array:
        return loss_function(input, weight, targets, bias, where=where, **options)

    loss, gradients = jax.value_and_grad(loss_of, argnums=(0, 1, 2))(input, weight, bias)
    named = zip(("input", "weight", "bias"), gradients, strict=True)
    return {"loss": loss} | {name: gradient for name, gradient in named if gradient is not None}
