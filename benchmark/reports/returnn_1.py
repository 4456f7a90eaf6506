"""A kernel writes its result into a Ref of zeros, in a layer that a scan repeats and autodiff differentiates.

Structure: RETURNN's relative attention (returnn/jax/util/rel_pos_att_triton.py) makes output Refs of zeros for its kernel.
Used in a scan over layers, the forward pass continues with zeros. Here a Pallas kernel computes a tanh, the Ref is written
with it, and the layer's result is read from the Ref.

The right answer: `out` is the last of three layers, x = tanh(x * w) + x each. If the Ref is read before it is written, each
layer adds nothing and `out` is the input: `out` and the gradient are stale. The cured twin uses the kernel's output.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

LAYERS, SIZE = 3, 128


def tanh_kernel(x_ref, out_ref):
    out_ref[...] = jnp.tanh(x_ref[...])


def run(through_ref, x, weights):
    def attend(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        out = pl.pallas_call(tanh_kernel, out_shape=shape, compiler_params=pallas_triton.CompilerParams(num_warps=1))(x)
        if not through_ref:
            return out
        cell = jax.new_ref(jnp.zeros((SIZE,)))
        cell[...] = out
        return cell[...]

    layer = jax.custom_vjp(attend)
    layer.defvjp(lambda x: (attend(x), x), lambda x, cotangent: (cotangent * (1.0 - jnp.tanh(x) ** 2),))

    def forward(weights):
        out, _ = jax.lax.scan(lambda x, w: (x + layer(x * w), None), x, weights)
        return out.sum(), out

    (_, out), gradient = jax.value_and_grad(forward, has_aux=True)(weights)
    return {"gradient": gradient, "out": out}


def run_ref(x, weights):
    return run(True, x, weights)


def run_output(x, weights):
    return run(False, x, weights)


def reference(x, weights):
    def forward(weights):
        out, _ = jax.lax.scan(lambda x, w: (x + jnp.tanh(x * w), None), x, weights)
        return out.sum(), out

    (_, out), gradient = jax.value_and_grad(forward, has_aux=True)(weights)
    return {"gradient": gradient, "out": out}


ARGS = (Arg(shape=(SIZE,)), Arg(shape=(LAYERS, SIZE)))
REPORT = Report(
    link="https://github.com/rwth-i6/returnn",
    year=2026,
    versions="jax-triton 0.4",
    kind=Kind.MOVED_BY_JAX,
    reported="a Ref that a kernel fills inside of a differentiated scan is read as zeros",
    finds=Wrong(outputs=("gradient", "out"), kinds=(Kind.MOVED_BY_JAX, Kind.STALE)),
)
BAD = Case(name="returnn_1", params=("bad",), function=run_ref, args=ARGS, reference=reference)
CURED = Case(name="returnn_1", params=("cured",), function=run_output, args=ARGS, reference=reference)
CASES = (BAD, CURED)
