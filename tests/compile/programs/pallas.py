"""Pallas on Triton: kernels that store to an input's reference, one of them without any used output."""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from ligerdiag.model.case import Arg, Case

X = Arg(shape=(16, 16))
ROW = pl.BlockSpec((1, 16), lambda row: (row, 0))


def double_kernel(x_ref, was_ref):
    was_ref[...] = x_ref[...]
    x_ref[...] = x_ref[...] * 2


def double(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(
        double_kernel, shape, grid=(16,), in_specs=[ROW], out_specs=ROW, compiler_params=pallas_triton.CompilerParams()
    )
    return call(x)


def step(x, w):
    y = x @ w
    return {"was": double(y), "back": y @ w}


def call_for_effect(x, w):
    y = x @ w
    double(y)
    return {"back": y @ w}


def call_in_a_function(x, w):
    @jax.jit
    def inner(y):
        return double(y)

    return {"was": inner(x @ w)}


CASES = tuple(
    Case(name=function.__name__, function=function, args=(X, X))
    for function in (step, call_for_effect, call_in_a_function)
)
