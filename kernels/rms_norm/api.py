"""RMS normalization whose backward pass overwrites the cotangent with the gradient of the input."""

from functools import partial

import jax

from kernels.rms_norm.options import RmsNormOptions
from kernels.rms_norm.triton import launch, launch_backward

type Residuals = tuple[jax.Array, jax.Array, jax.Array]


def rms_norm(
    input: jax.Array,
    weight: jax.Array,
    *,
    epsilon: float = 1e-6,
    offset: float = 0.0,
    casting: str = "llama",
    mode: str = "aliased",
) -> jax.Array:
    """Returns the normalized input, in its shape and dtype; differentiable in both arrays.

    input: bf16, f16 or f32[..., hidden]; weight: float[hidden]. See `reference.rms_norm` for the formula, `RmsNormOptions`
    for the options and `kernels.modes.Mode` for how the backward kernel overwrites the cotangent. Raises ValueError for
    shapes that do not fit and for unknown options.
    """
    options = RmsNormOptions(epsilon=epsilon, offset=offset, casting=casting, mode=mode)
    if weight.ndim != 1 or input.shape[-1:] != weight.shape:
        raise ValueError(f"Expected input (..., hidden) and weight (hidden,) but got {input.shape=} {weight.shape=}")
    if not input.size:
        return input
    return _rms_norm(input.reshape(-1, input.shape[-1]), weight, options).reshape(input.shape)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _rms_norm(input: jax.Array, weight: jax.Array, options: RmsNormOptions) -> jax.Array:
    return launch(input, weight, options)[0]


def _forward(input: jax.Array, weight: jax.Array, options: RmsNormOptions) -> tuple[jax.Array, Residuals]:
    output, inverse = launch(input, weight, options)
    return output, (input, weight, inverse)


def _backward(options: RmsNormOptions, residuals: Residuals, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
    input, weight, inverse = residuals
    gradient, weight_gradient = launch_backward(cotangent, input, weight, inverse, options)
    return gradient, weight_gradient.astype(weight.dtype)


_rms_norm.defvjp(_forward, _backward)
