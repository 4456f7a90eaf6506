"""A kernel on a loop-invariant value, in a scan that is differentiated: JAX hoists the call out of the loop."""

from typing import Any

import jax
import jax.numpy as jnp

from ligerdiag.model.case import Arg, Case
from tests.analysis.programs.doubling_kernel import double

SHAPE = (8, 16)


def scale(x: Any, w: Any) -> dict[str, Any]:
    def body(carry: Any, _: Any) -> Any:
        scaled = w * 0.66
        sums = double(scaled)
        return jnp.tanh(carry * scaled), sums.sum()

    def total(start: Any) -> Any:
        last, sums = jax.lax.scan(body, start, None, length=3)
        return last.sum() + sums.sum() * 1e-3, last

    (value, last), gradient = jax.value_and_grad(total, has_aux=True)(x)
    return {"value": value, "last": last, "gradient": gradient}


def scale_in_jnp(x: Any, w: Any) -> dict[str, Any]:
    def total(start: Any) -> Any:
        last, sums = start, 0.0
        for _ in range(3):
            scaled = w * 0.66
            sums += scaled.sum() * 1e-3
            last = jnp.tanh(last * scaled * 2)
        return last.sum() + sums, last

    (value, last), gradient = jax.value_and_grad(total, has_aux=True)(x)
    return {"value": value, "last": last, "gradient": gradient}


CASES = (Case(name="scale", function=scale, args=(Arg(shape=SHAPE), Arg(shape=SHAPE)), reference=scale_in_jnp),)
