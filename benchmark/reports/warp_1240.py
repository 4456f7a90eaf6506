"""On several devices a kernel that only changes its operand is gone; the author wants a flag for side effects.

Structure: the same on two devices: under shard_map each device scales its part by a kernel whose output is dropped.

The right answer: `parts` means the scaled parts. The call is eliminated while JAX traces the program, so the factor is
missing on every device.
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
    part, whole = jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec()
    each = jax.shard_map(scale, in_specs=(part, whole), out_specs=part, check_vma=False)
    return {"parts": each(jnp.sin(x), factor)}


def run_dropped(x, factor):
    return run(scale_dropped, x, factor)


def run_declared(x, factor):
    return run(scale_declared, x, factor)


REPORT = Report(
    link="https://github.com/NVIDIA/warp/pull/1240",
    year=2026,
    versions="warp 1.12",
    kind=Kind.MOVED_BY_JAX,
    reported="under pmap a call whose outputs nobody uses is dropped with its side effect",
    finds=Wrong(outputs=("parts",), at=("call",)),
)
ARGS = (Arg(shape=(512,), partition=("x",)), Arg(shape=()))
BAD = Case(name="warp_1240", params=("bad",), function=run_dropped, args=ARGS, mesh={"x": 2})
CURED = Case(name="warp_1240", params=("cured",), function=run_declared, args=ARGS, mesh={"x": 2})
CASES = (BAD, CURED)
