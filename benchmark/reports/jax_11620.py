"""A call with a side effect disappears under jit, because nobody uses its result.

Structure: the kernel has an output that the program drops, and an operand that it overwrites, in the body of a scan.

The right answer: each iteration means to scale the state. JAX's dead code elimination removes the call with its unused
result, so `state` is the initial one plus the increments, without a factor.
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
def scale_kernel(gradient_ptr, factor_ptr, done_ptr, spare_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(done_ptr, 1.0)
    tl.store(gradient_ptr + at, tl.load(gradient_ptr + at) * tl.load(factor_ptr))


def scale_declared(gradient, factor):
    done = jax.ShapeDtypeStruct((), "float32")
    return call_in_place(gradient, factor, written=0, kernel=scale_kernel, outputs=(done,), grid=1, SIZE=gradient.size)[
        1
    ]


def scale_dropped(gradient, factor):
    jax_triton.triton_call(  # at: call
        gradient,
        factor,
        kernel=scale_kernel,
        out_shape=jax.ShapeDtypeStruct((), "float32"),
        grid=1,
        SIZE=gradient.size,
        spare_ptr=None,
    )
    return gradient


def run(scale, x, factor):
    state, _ = jax.lax.scan(lambda state, row: (scale(state + row, factor), None), jnp.zeros(x.shape[1]), x)
    return {"state": state}


def run_dropped(x, factor):
    return run(scale_dropped, x, factor)


def run_declared(x, factor):
    return run(scale_declared, x, factor)


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/11620",
    year=2022,
    versions="jax 0.3.14, mpi4jax",
    kind=Kind.MOVED_BY_JAX,
    reported="an effectful primitive is eliminated by jit if its outputs are unused",
    finds=Wrong(outputs=("state",), at=("call",)),
)
ARGS = (Arg(shape=(3, 256)), Arg(shape=()))
BAD = Case(name="jax_11620", params=("bad",), function=run_dropped, args=ARGS)
CURED = Case(name="jax_11620", params=("cured",), function=run_declared, args=ARGS)
CASES = (BAD, CURED)
