"""Calls that work on views of one parent array are declared to have no effects; a model step ends in NaN.

Structure: a state of two layers; a kernel updates each layer in place, and neither call declares a write. The
tendencies are computed from the state afterwards.

The right answer: each layer means its contents after its call. In JAX a slice is an array of its own, so each call may
get a copy or the parent's bytes, and the sums after it may be computed from the parent as it was: `upper` and `lower`
are stale. The total of the whole state is meant before the calls, and right.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def step_kernel(layer_ptr, speed_ptr, spare_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    layer = tl.load(layer_ptr + at)
    tl.store(speed_ptr, tl.max(layer))
    tl.store(layer_ptr + at, layer + 0.5 * layer * layer)


def step_hidden(layer):
    speed = jax_triton.triton_call(  # at: call
        layer,
        kernel=step_kernel,
        out_shape=jax.ShapeDtypeStruct((), "float32"),
        grid=1,
        SIZE=layer.size,
        spare_ptr=None,
    )
    return speed, layer


def step_declared(layer):
    speed = jax.ShapeDtypeStruct((), "float32")
    return call_in_place(layer, written=0, kernel=step_kernel, outputs=(speed,), grid=1, SIZE=layer.size)


def run(step, state):
    state = jnp.sin(state)
    total = state.sum()
    first, upper = step(state[0])
    second, lower = step(state[1])
    return {"speed": first + second, "upper": upper * 2.0, "lower": lower * 2.0, "total": total}


def run_hidden(state):
    return run(step_hidden, state)


def run_declared(state):
    return run(step_declared, state)


REPORT = Report(
    link="https://github.com/SpeedyWeather/SpeedyWeather.jl/pull/985",
    year=2026,
    versions="Reactant.jl",
    kind=Kind.STALE,
    reported="kernels on views of one buffer are declared to have no effects; a step of the model gives NaN",
    finds=Wrong(outputs=("upper", "lower"), at=("call",)),
)
BAD = Case(name="speedyweather_985", params=("bad",), function=run_hidden, args=(Arg(shape=(2, 512)),))
CURED = Case(name="speedyweather_985", params=("cured",), function=run_declared, args=(Arg(shape=(2, 512)),))
CASES = (BAD, CURED)
