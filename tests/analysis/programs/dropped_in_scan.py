"""Kernels that JAX drops while it differentiates a loop around them: the program as written lacks the call as well."""

import jax
from doubling_kernel import Cases, double, double_declared
from jax import lax

from ligerdiag import Arg

LAYERS, H = Arg(shape=(3, 16, 16)), Arg(shape=(8, 16))
CASES = Cases()


@jax.custom_vjp
def twice(h):
    double(h)
    return h


def forward(h):
    double(h)
    return h, None


twice.defvjp(forward, lambda _, g: (2 * g,))


@jax.custom_vjp
def twice_declared(h):
    double(h)
    return h


twice_declared.defvjp(lambda h: (double_declared(h)[0], None), lambda _, g: (2 * g,))


def differentiate(function, layers, h):
    def loss(layers):
        return (lax.scan(lambda h, w: (h + function(h @ w), None), h, layers)[0] ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(layers)
    return {"loss": value, "gradient": gradient}


@CASES.add(LAYERS, H)
def dropped(layers, h):
    return differentiate(twice, layers, h)


@CASES.add(LAYERS, H)
def replaced(layers, h):
    """Differentiation replaces the function by its rule, so dropping the function's own calls loses nothing."""
    return differentiate(twice_declared, layers, h)
