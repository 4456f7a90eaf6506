"""A backward pass leaves the gradient where the saved input was; a second backward pass finds the gradient there.

Structure: the derivative rule of a square saves its input, and its kernel overwrites the saved input by the gradient. The
pullback is called twice, with two cotangents.

The right answer: 2 * x * g for each cotangent g. The first call changes what the second one reads, so `second` is computed
from 2 * x * g, or XLA gives the second call a copy of its own, by luck: `second` is wrong or unsure. The cured twin declares
the write, so each call gets contents of its own.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

SIZE = 256


@triton.jit
def backward_kernel(x_ptr, g_ptr, total_ptr, spare_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    gradient = 2.0 * tl.load(x_ptr + at) * tl.load(g_ptr + at)
    tl.store(x_ptr + at, gradient)
    tl.store(total_ptr, tl.sum(gradient))


CELL = jax.ShapeDtypeStruct((1,), "float32")


def backward_hidden(x, g):
    keywords = {"kernel": backward_kernel, "out_shape": CELL, "grid": 1, "SIZE": SIZE, "spare_ptr": None}
    return jax_triton.triton_call(x, g, **keywords), x


def backward_declared(x, g):
    return call_in_place(x, g, written=0, kernel=backward_kernel, outputs=(CELL,), grid=1, SIZE=SIZE)


def pull_twice(backward, x, g, h):
    @jax.custom_vjp
    def square(x):
        return x * x

    def pull(x, cotangent):
        total, gradient = backward(x, cotangent)
        return (gradient + 0.0 * total,)

    square.defvjp(lambda x: (x * x, x), pull)
    _, vjp = jax.vjp(square, jax.numpy.sin(x))
    return {"first": vjp(g)[0], "second": vjp(h)[0]}


def pull_hidden(x, g, h):
    return pull_twice(backward_hidden, x, g, h)


def pull_declared(x, g, h):
    return pull_twice(backward_declared, x, g, h)


def reference(x, g, h):
    return {"first": 2.0 * jax.numpy.sin(x) * g, "second": 2.0 * jax.numpy.sin(x) * h}


ARGS = (Arg(shape=(SIZE,)), Arg(shape=(SIZE,)), Arg(shape=(SIZE,)))
REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/4004",
    year=2024,
    versions="triton 2.3.0, A100",
    kind=Kind.CLOBBERED,
    reported="a second backward pass uses a saved tensor that the first one has overwritten, and nothing complains",
    finds=Wrong(outputs=("first", "second"), kinds=(Kind.CLOBBERED, Kind.STALE, Kind.REPEATED_UPDATE)),
)
BAD = Case(name="triton_4004", params=("bad",), function=pull_hidden, args=ARGS, reference=reference)
CURED = Case(name="triton_4004", params=("cured",), function=pull_declared, args=ARGS, reference=reference)
CASES = (BAD, CURED)
