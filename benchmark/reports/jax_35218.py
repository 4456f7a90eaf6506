"""The launcher in jaxlib saves and restores the aliased inputs of an autotuned call, which it did not do before.

Structure: an autotuned kernel adds to an aliased operand.

The right answer: the state is updated once. The launcher runs every configuration on the state itself before it chooses
one, and restores nothing, so the first execution in a process applies the update once for each trial, and once more.
jaxlib restores an alias by its number among all buffers; a call with an output before the aliased one gives another
number.
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
    new = state + 0.1 * update
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
    link="https://github.com/jax-ml/jax/pull/35218",
    year=2026,
    versions="jaxlib 0.9.3",
    kind=Kind.REPEATED_UPDATE,
    reported="the launcher did not restore aliased inputs after it had tried configurations on them",
    finds=Wrong(at=("call",)),
)
ARGS = (Arg(shape=(1024,)), Arg(shape=(1024,)))
BAD = Case(name="jax_35218", params=("bad",), function=apply_tuned, args=ARGS)
CURED = Case(name="jax_35218", params=("cured",), function=apply_once, args=ARGS)
CASES = (BAD, CURED)
