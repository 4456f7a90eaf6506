"""Several programs of a grid update one tile; each first loads the old tile again, and erases what others have added.

Structure: four programs share the whole output; each copies the input into it and then adds its part.

The right answer: the input plus all four parts. Each program's copy may come after another's addition, so parts are
lost, and which ones depends on the order: `total` is wrong in any order but none, as one program's copy always erases
another's part.
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def add_kernel(start_ref, parts_ref, out_ref):
    out_ref[...] = start_ref[...]
    out_ref[...] += parts_ref[pl.program_id(0), :]


def add_in_one_kernel(start_ref, parts_ref, out_ref):
    out_ref[...] = start_ref[...] + parts_ref[...].sum(0)


def add(kernel, programs, start, parts):
    call = pl.pallas_call(
        kernel,
        grid=(programs,),
        out_shape=jax.ShapeDtypeStruct(start.shape, start.dtype),
        compiler_params=triton.CompilerParams(num_warps=1),
    )
    return {"total": call(start, parts)}  # at: call


def add_shared(start, parts):
    return add(add_kernel, 4, start, parts)


def add_once(start, parts):
    return add(add_in_one_kernel, 1, start, parts)


def add_plainly(start, parts):
    return {"total": start + parts.sum(0)}


REPORT = Report(
    link="https://github.com/pytorch/helion/pull/2637",
    year=2026,
    versions="helion 1.0, TPU",
    kind=Kind.LOST_UPDATE,
    reported="each program reloads the original of a shared output tile and erases earlier updates",
    finds=Wrong(outputs=("total",), at=("call",)),
)
ARGS = (Arg(shape=(64,)), Arg(shape=(4, 64)))
BAD = Case(name="helion_2637", params=("bad",), function=add_shared, args=ARGS, reference=add_plainly)
CURED = Case(name="helion_2637", params=("cured",), function=add_once, args=ARGS, reference=add_plainly)
CASES = (BAD, CURED)
