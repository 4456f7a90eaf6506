"""Kernels whose outputs alias zeros, in a loop over layers: XLA makes the zeros once, and copies them in each layer.

Structure: the body of a scan over layers calls two kernels; each accumulates into an operand of zeros that its output
aliases. The zeros do not depend on the layer, so they leave the loop, and the two are equal, so they become one.

The right answer: each call needs fresh zeros, because the kernel overwrites them. Filling 128 KiB writes them once; copying
them reads and writes them. So a copy of zeros in each layer is superfluous, and the kernel's call (or the line of the zeros)
is where it is asked for. The cured twin lets the kernel store its result without reading the output.
"""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place

ROWS, COLUMNS = 256, 128


@triton.jit
def add_rows_kernel(x_ptr, into_ptr, spare_ptr, SCALE: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(into_ptr + at, tl.load(into_ptr + at) + SCALE * tl.load(x_ptr + at))


@triton.jit
def scale_rows_kernel(x_ptr, out_ptr, SCALE: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr + at, SCALE * tl.load(x_ptr + at))


def add_onto_zeros(x, scale):
    zeros = jnp.zeros(x.shape, x.dtype)  # at: zeros_line
    keywords = {"kernel": add_rows_kernel, "grid": ROWS, "SCALE": scale, "COLUMNS": COLUMNS}
    (filled,) = call_in_place(x, zeros, written=1, **keywords)  # at: call
    return filled


def scale_rows(x, scale):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax_triton.triton_call(x, kernel=scale_rows_kernel, out_shape=shape, grid=ROWS, SCALE=scale, COLUMNS=COLUMNS)


def run_layers(layer, x, weights):
    def body(x, w):
        return jnp.sin(layer(x, 2) @ w) + layer(jnp.cos(x), 3), None

    return {"x": jax.lax.scan(body, x, weights)[0]}  # at: scan_line


def aliased(x, weights):
    return run_layers(add_onto_zeros, x, weights)


def stored(x, weights):
    return run_layers(scale_rows, x, weights)


ARGS = (Arg(shape=(ROWS, COLUMNS), donate=True), Arg(shape=(3, COLUMNS, COLUMNS)))
REPORT = Report(
    link="https://github.com/marin-community/marin/issues/8822",
    year=2026,
    versions="jax 0.11, GB200",
    kind=Kind.SILENT_COPY,
    reported="zeros that kernels accumulate into are made once for all layers and copied in every layer",
    finds=Wrong(at=("zeros_line", "call", "scan_line")),
)
BAD = Case(name="marin_8822", params=("bad",), function=aliased, args=ARGS)
CURED = Case(name="marin_8822", params=("cured",), function=stored, args=ARGS)
CASES = (BAD, CURED)
