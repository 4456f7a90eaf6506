"""An operator for events adds the weights of active inputs to one output, from all programs of a Pallas grid.

Structure: each program handles a block of inputs, and adds its partial product to an output that all programs share. The
output is not aliased, and the addition is a load and a store.

The right answer: the sum over active inputs of their rows of weights. The output starts from arbitrary bytes, and programs
that run at the same time overwrite each other's sums, so `current` is wrong for two reasons. The cured twin stores one
partial sum per program and adds them outside.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw

INPUTS, OUTPUTS, BLOCK = 64, 32, 16
PROGRAMS = INPUTS // BLOCK
PARAMS = pallas_triton.CompilerParams(num_warps=1)


def events_kernel(events_ref, weights_ref, out_ref):
    out_ref[...] += jnp.sum(jnp.where(events_ref[...][:, None], weights_ref[...], 0.0), axis=0)


def events_parts_kernel(events_ref, weights_ref, out_ref):
    out_ref[...] = jnp.sum(jnp.where(events_ref[...][:, None], weights_ref[...], 0.0), axis=0)


SPECS = [pl.BlockSpec((BLOCK,), lambda i: (i,)), pl.BlockSpec((BLOCK, OUTPUTS), lambda i: (i, 0))]


def add_events(events, weights):
    shape = jax.ShapeDtypeStruct((OUTPUTS,), weights.dtype)
    whole = pl.BlockSpec((OUTPUTS,), lambda i: (0,))
    call = pl.pallas_call(
        events_kernel, grid=(PROGRAMS,), in_specs=SPECS, out_specs=whole, out_shape=shape, compiler_params=PARAMS
    )
    return {"current": call(events, weights)}


def add_parts(events, weights):
    shape = jax.ShapeDtypeStruct((PROGRAMS, OUTPUTS), weights.dtype)
    row = pl.BlockSpec((None, OUTPUTS), lambda i: (i, 0))
    call = pl.pallas_call(
        events_parts_kernel, grid=(PROGRAMS,), in_specs=SPECS, out_specs=row, out_shape=shape, compiler_params=PARAMS
    )
    return {"current": call(events, weights).sum(0)}


ARGS = (Arg(shape=(INPUTS,), dtype="bool", draw=Draw(kind="bernoulli", scale=0.5)), Arg(shape=(INPUTS, OUTPUTS)))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/24117",
    year=2024,
    versions="jax 0.4.33, GPU",
    kind=Kind.UNWRITTEN_READ,
    reported="an event-driven operator in Pallas that accumulates into its output gives wrong sums",
    finds=Wrong(outputs=("current",), kinds=(Kind.UNWRITTEN_READ, Kind.LOST_UPDATE)),
)
BAD = Case(name="jax_24117", params=("bad",), function=add_events, args=ARGS)
CURED = Case(name="jax_24117", params=("cured",), function=add_parts, args=ARGS)
CASES = (BAD, CURED)
