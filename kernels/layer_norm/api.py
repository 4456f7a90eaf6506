"""Layer normalization whose backward pass overwrites the cotangent with the gradient of the input."""

from functools import partial

import jax

from kernels.layer_norm.triton import Moments, launch, launch_backward
from kernels.modes import Mode

type Residuals = tuple[jax.Array, jax.Array, jax.Array, Moments]


def layer_norm(
    input: jax.Array, weight: jax.Array, bias: jax.Array, *, epsilon: float = 1e-6, mode: str = "aliased"
) -> jax.Array:
    """Returns the normalized input, in its shape and dtype; differentiable in all three arrays.

    input: bf16, f16 or f32[..., hidden]; weight, bias: float[hidden]. See `reference.layer_norm` for the formula and
    `kernels.modes.Mode` for how the backward kernel overwrites the cotangent. Raises ValueError for shapes that do not
    fit, an unknown mode and a negative epsilon.
    """
    if weight.ndim != 1 or input.shape[-1:] != weight.shape or bias.shape != weight.shape:
        raise ValueError(
            "Expected input (..., hidden), weight (hidden,) and bias (hidden,) "
            f"but got {input.shape=} {weight.shape=} {bias.shape=}"
        )
    if not epsilon >= 0.0:
        raise ValueError(f"Expected a number that is not negative but got {epsilon=}")
    mode = Mode(mode)
    if not input.size:
        return input
    return _layer_norm(input.reshape(-1, input.shape[-1]), weight, bias, epsilon, mode).reshape(input.shape)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _layer_norm(input: jax.Array, weight: jax.Array, bias: jax.Array, epsilon: float, mode: Mode) -> jax.Array:
    return launch(input, weight, bias, epsilon)[0]


def _forward(
    input: jax.Array, weight: jax.Array, bias: jax.Array, epsilon: float, mode: Mode
) -> tuple[jax.Array, Residuals]:
    output, moments = launch(input, weight, bias, epsilon)
    return output, (input, weight, bias, moments)


def _backward(
    epsilon: float, mode: Mode, residuals: Residuals, cotangent: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    input, weight, bias, moments = residuals
    gradient, weight_gradient, bias_gradient = launch_backward(cotangent, input, weight, moments, mode)
    return gradient, weight_gradient.astype(weight.dtype), bias_gradient.astype(bias.dtype)


_layer_norm.defvjp(_forward, _backward)
