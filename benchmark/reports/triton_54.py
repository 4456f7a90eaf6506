"""An autotuned kernel that accumulates into its operand has too large sums after its first call.

Structure: two configurations; the kernel adds to its operand in place, and no write is declared.

The right answer: the state is updated once. The launcher runs every configuration on the state itself before it chooses
one, and restores nothing, so the first execution in a process applies the update once for each trial, and once more.
Both outputs may be wrong, in the first execution only.
"""

import jax
import jax_triton
import triton
import triton.language as tl

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case
from ligerdiag.in_place import call_in_place


@triton.jit
def update_kernel(state_ptr, update_ptr, changes_ptr, spare_ptr, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    state, update = tl.load(state_ptr + at), tl.load(update_ptr + at)
    new = state + update
    tl.store(changes_ptr + block, tl.sum(tl.abs(new - state)))
    tl.store(state_ptr + at, new)


tuned_kernel = triton.autotune([triton.Config({}, num_warps=2), triton.Config({}, num_warps=4)], key=[])(update_kernel)


def apply_tuned(state, update):
    state = state * 1.0
    changes = jax_triton.triton_call(  # at: call
        state,
        update,
        kernel=tuned_kernel,
        out_shape=jax.ShapeDtypeStruct((state.size // 256,), "float32"),
        grid=state.size // 256,
        BLOCK=256,
        spare_ptr=None,
    )
    return {"changes": changes, "state": state}


def apply_once(state, update):
    changes = jax.ShapeDtypeStruct((state.size // 256,), "float32")
    changes, state = call_in_place(
        state,
        update,
        written=0,
        kernel=update_kernel,
        outputs=(changes,),
        grid=state.size // 256,
        BLOCK=256,
    )
    return {"changes": changes, "state": state}


REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/54",
    year=2021,
    versions="triton 1.0",
    kind=Kind.REPEATED_UPDATE,
    reported="an accumulating kernel gives wrong sums on its first, autotuned run",
    finds=Wrong(at=("call",)),
    like="lion_pytorch_36",
)
ARGS = (Arg(shape=(1024,)), Arg(shape=(1024,)))
BAD = Case(name="triton_54", params=("bad",), function=apply_tuned, args=ARGS)
CURED = Case(name="triton_54", params=("cured",), function=apply_once, args=ARGS)
CASES = (BAD, CURED)
