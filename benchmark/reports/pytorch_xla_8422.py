"""Saving a model overwrites a tensor that is still in use, because its buffer is donated by mistake.

Structure: the program updates a state in place and returns a statistic; nobody gave the state away, and the caller still
uses it.

The right answer: the caller still owns the state, so its bytes must not change. A kernel that writes into the parameter
without a declaration leaves the new state there: the caller's array is clobbered, while the output is right.
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
def decay_kernel(state_ptr, norm_ptr, spare_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    state = tl.load(state_ptr + at)
    tl.store(norm_ptr, tl.sum(state * state))
    tl.store(state_ptr + at, 0.9 * state)


def save_hidden(state):
    norm = jax_triton.triton_call(  # at: call
        state,
        kernel=decay_kernel,
        out_shape=jax.ShapeDtypeStruct((), "float32"),
        grid=1,
        SIZE=state.size,
        spare_ptr=None,
    )
    return {"norm": jnp.sqrt(norm)}


def save_declared(state):
    norm, _ = call_in_place(
        state,
        written=0,
        kernel=decay_kernel,
        outputs=(jax.ShapeDtypeStruct((), "float32"),),
        grid=1,
        SIZE=state.size,
    )
    return {"norm": jnp.sqrt(norm)}


REPORT = Report(
    link="https://github.com/pytorch/xla/pull/8422",
    year=2024,
    versions="torch_xla 2.6",
    kind=Kind.CLOBBERED,
    reported="a save donates a buffer that the model still uses, and later reads see other contents",
    finds=Wrong(at=("call",)),
)
BAD = Case(name="pytorch_xla_8422", params=("bad",), function=save_hidden, args=(Arg(shape=(512,)),))
CURED = Case(name="pytorch_xla_8422", params=("cured",), function=save_declared, args=(Arg(shape=(512,)),))
CASES = (BAD, CURED)
