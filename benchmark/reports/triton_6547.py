"""An autotuned kernel that scales logits in place scales them several times; resetting them to zero loses them.

Structure: two configurations; the operand is scaled by a penalty in place, and the write is declared.

The right answer: the state is updated once. The launcher runs every configuration on the state itself before it chooses
one, and restores nothing, so the first execution in a process applies the update once for each trial, and once more.
Declaring the write to XLA does not help: the launcher restores what it takes for aliased, not this operand.
"""

import jax
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
    new = state * tl.where(state > 0, 0.5, 2.0) + 0.0 * update
    tl.store(changes_ptr + block, tl.sum(tl.abs(new - state)))
    tl.store(state_ptr + at, new)


tuned_kernel = triton.autotune([triton.Config({}, num_warps=2), triton.Config({}, num_warps=4)], key=[])(update_kernel)


def apply_tuned(state, update):
    changes = jax.ShapeDtypeStruct((state.size // 256,), "float32")
    changes, state = call_in_place(  # at: call
        state,
        update,
        written=0,
        kernel=tuned_kernel,
        outputs=(changes,),
        grid=state.size // 256,
        BLOCK=256,
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
    link="https://github.com/triton-lang/triton/issues/6547",
    year=2025,
    versions="triton 3.2",
    kind=Kind.REPEATED_UPDATE,
    reported="logits that a kernel scales in place are scaled several times when the kernel is autotuned",
    finds=Wrong(at=("call",)),
    like="jax_35218",
)
ARGS = (Arg(shape=(1024,)), Arg(shape=(1024,)))
BAD = Case(name="triton_6547", params=("bad",), function=apply_tuned, args=ARGS)
CURED = Case(name="triton_6547", params=("cured",), function=apply_once, args=ARGS)
CASES = (BAD, CURED)
