"""An aliased operand that `zeroed_outputs` used to set to zero keeps its contents since an upgrade.

Structure: a workspace with old contents is aliased to the output to which the kernel adds by atomics; nobody sets it to
zero.

The right answer: the sums of this call alone, as in the version before. The kernel adds to what the workspace held:
`sums` is too large by the old contents in any schedule.
"""

import jax.numpy as jnp
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def sum_kernel(x_ptr, sums_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLUMNS)
    tl.atomic_add(sums_ptr + row, tl.sum(tl.load(x_ptr + row * COLUMNS + column)))


def sum_into(workspace, x):
    (sums,) = call_in_place(  # at: call
        x, workspace, written=1, kernel=sum_kernel, grid=x.shape[0], COLUMNS=x.shape[1]
    )
    return {"sums": sums}


def sum_onto_old(x, workspace):
    return sum_into(jnp.sin(workspace), x)


def sum_onto_zeros(x, workspace):
    return sum_into(0.0 * jnp.sin(workspace), x)


def sum_plainly(x, workspace):
    del workspace
    return {"sums": x.sum(1)}


REPORT = Report(
    link="https://github.com/jax-ml/jax-triton/pull/388",
    year=2026,
    versions="jax-triton 0.5.0",
    kind=Kind.UNWRITTEN_READ,
    reported="zeroed_outputs no longer zeroes an aliased input, so a kernel accumulates onto its old contents",
    finds=Wrong(outputs=("sums",), at=("call",)),
)
ARGS = (Arg(shape=(16, 64)), Arg(shape=(16,)))
BAD = Case(name="jax_triton_388", params=("bad",), function=sum_onto_old, args=ARGS, reference=sum_plainly)
CURED = Case(name="jax_triton_388", params=("cured",), function=sum_onto_zeros, args=ARGS, reference=sum_plainly)
CASES = (BAD, CURED)
