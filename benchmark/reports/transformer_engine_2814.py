"""A sort of chunks is wrong now and then, because the launcher of autotuned kernels does not know which operands are
aliased.

Structure: the call declares its alias to XLA, and the launcher that tries the configurations gets none.

The right answer: the state is updated once. The launcher runs every configuration on the state itself before it chooses
one, and restores nothing, so the first execution in a process applies the update once for each trial, and once more.
Here the launcher gets the alias with the number that XLA counts, which is another operand's.
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
    new = tl.maximum(state, update) * 0.5
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
    link="https://github.com/NVIDIA/TransformerEngine/pull/2814",
    year=2026,
    versions="jax 0.9.3, TransformerEngine 2.14",
    kind=Kind.REPEATED_UPDATE,
    reported="aliases are declared to XLA and withheld from the launcher, whose trials leave traces in the buffers",
    finds=Wrong(at=("call",)),
    like="jax_35218",
)
ARGS = (Arg(shape=(1024,)), Arg(shape=(1024,)))
BAD = Case(name="transformer_engine_2814", params=("bad",), function=apply_tuned, args=ARGS)
CURED = Case(name="transformer_engine_2814", params=("cured",), function=apply_once, args=ARGS)
CASES = (BAD, CURED)
