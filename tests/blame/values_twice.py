"""Calls that pass one array as two operands with aliased outputs: the counterpart of refs_twice.py without `Ref`."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from ligerdiag.model.case import Arg, Case

N = 128


def halves_kernel(a: Any, b: Any, x: Any, a_out: Any, b_out: Any) -> None:
    a_out[: N // 2] = x[: N // 2] + 10
    b_out[N // 2 :] = x[N // 2 :] + 20


def whole_kernel(a: Any, b: Any, x: Any, a_out: Any, b_out: Any) -> None:
    """Uses b as scratch memory, and fills a."""
    b_out[...] = x[...] * 2
    a_out[...] = b_out[...] + 1


def call(a: Any, b: Any, x: Any, kernel: Any = halves_kernel) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        kernel,
        out_shape=(shape, shape),
        input_output_aliases={0: 0, 1: 1},
        compiler_params=pallas_triton.CompilerParams(),
    )(a, b, x)


def last_kept(y: Any, x: Any) -> Any:
    y = y * 2
    return {"y": call(y, y, x)[1]}


def first_kept(y: Any, x: Any) -> Any:
    y = y * 2
    return {"y": call(y, y, x)[0], "x": x + 1}


def of_an_argument(y: Any, x: Any) -> Any:
    return {"y": jnp.sin(call(y, y, x)[1])}


def in_a_loop(y: Any, x: Any) -> Any:
    return {"y": jax.lax.fori_loop(0, 3, lambda _, y: call(y, y, x)[1], y)}


def both_kept(y: Any, x: Any) -> Any:
    y = y * 2
    a, b = call(y, y, x)
    return {"y": jnp.concatenate([a[: N // 2], b[N // 2 :]])}


def two(y: Any, x: Any) -> Any:
    return {"y": call(y * 2, y * 3, x)[1]}


def a_place_to_work_in(y: Any, x: Any) -> Any:
    zeros = jnp.zeros_like(y)
    return {"y": call(zeros, zeros, x, whole_kernel)[0]}


def fill(y: Any, x: Any) -> Any:
    """Returns the intended result of `last_kept`."""
    return {"y": jnp.concatenate([x[: N // 2] + 10, x[N // 2 :] + 20])}


TWICE = (last_kept, first_kept, of_an_argument, in_a_loop)
ONCE = (both_kept, two, a_place_to_work_in)
CASES = tuple(Case(name=one.__name__, function=one, args=(Arg(shape=(N,)), Arg(shape=(N,)))) for one in TWICE + ONCE)
CASES += (Case(name="referenced", function=last_kept, reference=fill, args=(Arg(shape=(N,)), Arg(shape=(N,)))),)
