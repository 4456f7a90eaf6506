"""Mosaic GPU kernels in the forms in which people write them; `FORMS` names the operands that each one writes.

An H200 changed the bytes of these operands and of no others (docs/measurements/2026-11-23-h200.md). Every operand is
read after the kernel.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from ligerdiag import Arg, Case

SHAPE = jax.ShapeDtypeStruct((256,), "float32")
SHARED = plgpu.SMEM((256,), "float32")
TILE = plgpu.BlockSpec((128,), lambda i: (i,))
GRID = {"grid": (2,), "grid_names": ("g",)}
THREADS = {"num_threads": 2, "thread_name": "wg"}


def parts_by_tma(x_ref: Any, out_ref: Any, shared: Any, barrier: Any) -> None:
    def body(i: Any, _: None) -> None:
        part = x_ref.at[pl.ds(i * 128, 128)]
        plgpu.copy_gmem_to_smem(part, shared, barrier)
        plgpu.barrier_wait(barrier)
        shared[...] += 1
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(shared, part)
        plgpu.wait_smem_to_gmem(0)

    jax.lax.fori_loop(0, 2, body, None)
    out_ref[...] = x_ref[...]


def in_a_loop(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    def body(_: Any, carry: Any) -> Any:
        y_ref[...] += carry
        return carry + 1

    jax.lax.fori_loop(0, 3, body, jnp.float32(1))
    out_ref[...] = x_ref[...]


def in_a_while(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    def body(count: Any) -> Any:
        y_ref[...] += 1.0
        return count + 1

    jax.lax.while_loop(lambda count: count < 3, body, 0)
    out_ref[...] = x_ref[...]


def by_one_program(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    out_ref[...] = x_ref[...]

    @pl.when(jax.lax.axis_index("g") == 1)
    def _() -> None:
        y_ref[...] = x_ref[...]


def one_or_the_other(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    def double_x() -> None:
        x_ref[...] *= 2

    def double_y() -> None:
        y_ref[...] *= 2

    out_ref[...] = x_ref[...]
    jax.lax.cond(jax.lax.axis_index("g") == 1, double_x, double_y)


def by_reduction(x_ref: Any, y_ref: Any, out_ref: Any, shared: Any) -> None:
    shared[...] = x_ref[...]
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(shared, y_ref, reduction_op="add")
    plgpu.wait_smem_to_gmem(0)
    out_ref[...] = x_ref[...]


def reads_alone(x_ref: Any, y_ref: Any, out_ref: Any, shared: Any, barrier: Any) -> None:
    plgpu.async_prefetch(y_ref)
    plgpu.copy_gmem_to_smem(x_ref, shared, barrier)
    plgpu.barrier_wait(barrier)
    shared[...] += y_ref[...]
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(shared, out_ref)
    plgpu.wait_smem_to_gmem(0)


def by_scoped_memory(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    def inner(shared: Any) -> None:
        shared[...] = x_ref[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(shared, y_ref)
        plgpu.wait_smem_to_gmem(0)

    pl.run_scoped(inner, SHARED)
    out_ref[...] = x_ref[...]


def in_a_function(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    @jax.jit
    def inner(ref: Any) -> None:
        ref[...] *= 2

    inner(y_ref)
    out_ref[...] = x_ref[...]


def by_another_warpgroup(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    thread = jax.lax.axis_index("wg")

    @pl.when(thread == 0)
    def _() -> None:
        out_ref[...] = x_ref[...]

    @pl.when(thread == 1)
    def _() -> None:
        y_ref[...] += 1


def _add_one(_: Any, tile_ref: Any, out_ref: Any) -> None:
    out_ref[...] = tile_ref[...] + 1


def pipelined_onto_itself(x_ref: Any, out_ref: Any) -> None:
    plgpu.emit_pipeline(_add_one, grid=(2,), in_specs=[TILE], out_specs=[TILE], max_concurrent_steps=2)(x_ref, x_ref)
    out_ref[...] = x_ref[...]


def pipelined(x_ref: Any, out_ref: Any) -> None:
    plgpu.emit_pipeline(_add_one, grid=(2,), in_specs=[TILE], out_specs=[TILE], max_concurrent_steps=2)(x_ref, out_ref)


def pipelined_by_warps(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    plgpu.emit_pipeline_warp_specialized(
        _add_one,
        grid=(2,),
        in_specs=[TILE],
        out_specs=[TILE],
        max_concurrent_steps=2,
        num_compute_wgs=1,
        memory_registers=40,
        wg_axis="wg",
    )(x_ref, y_ref)

    @pl.when(jax.lax.axis_index("wg") == 0)
    def _() -> None:
        out_ref[...] = x_ref[...]


def one_element(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    out_ref[...] = x_ref[...]
    y_ref[0] = jnp.float32(3)


def by_atomics(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    out_ref[...] = x_ref[...]
    plgpu.atomic_add(y_ref.at[...], x_ref[...])


def by_hand(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    out_ref[...] = x_ref[...]

    @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), plgpu.Layout.WG_STRIDED((256,), 2)))
    def store(context: Any, ref: Any, value: Any) -> None:
        del context
        value.store_untiled(ref)

    store(y_ref, x_ref[...])


def tile_by_tile(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    @plgpu.nd_loop((2,), collective_axes="g")
    def _(loop: Any) -> None:
        part = pl.ds(loop.index[0] * 128, 128)
        y_ref.at[part][...] = x_ref.at[part][...]

    out_ref[...] = x_ref[...]


def behind_a_semaphore(x_ref: Any, y_ref: Any, out_ref: Any, semaphore: Any) -> None:
    out_ref[...] = x_ref[...]
    pl.semaphore_signal(semaphore, 1)
    pl.semaphore_wait(semaphore, 1)
    y_ref[...] = x_ref[...]


BARRIER = plgpu.Barrier()
FORMS: dict[Callable[..., None], tuple[set[int], dict[str, Any]]] = {
    parts_by_tma: ({0}, {"scratch_types": [plgpu.SMEM((128,), "float32"), BARRIER]}),
    in_a_loop: ({1}, {}),
    in_a_while: ({1}, {}),
    by_one_program: ({1}, GRID),
    one_or_the_other: ({0, 1}, GRID),
    by_reduction: ({1}, {"scratch_types": [SHARED]}),
    reads_alone: (set(), {"scratch_types": [SHARED, BARRIER]}),
    by_scoped_memory: ({1}, {}),
    in_a_function: ({1}, {}),
    by_another_warpgroup: ({1}, THREADS),
    pipelined_onto_itself: ({0}, {}),
    pipelined: (set(), {}),
    pipelined_by_warps: ({1}, THREADS),
    one_element: ({1}, {}),
    by_atomics: ({1}, {}),
    by_hand: ({1}, {}),
    tile_by_tile: ({1}, GRID),
    behind_a_semaphore: ({1}, {"scratch_types": [plgpu.SemaphoreType.REGULAR]}),
}
"""The operands that each kernel writes, and further arguments of the launch."""
ONE_OPERAND = (parts_by_tma, pipelined_onto_itself, pipelined)
WARPGROUP = plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup)
LANE_ALONE = (by_atomics, by_hand)
"""JAX lowers these in lane semantics only, or uses another layout in warpgroup semantics."""


def run(form: Callable[..., None], words: dict[str, Any], x: Any, y: Any) -> dict[str, Any]:
    """Returns the kernel's output, and each operand after it."""
    operands = (x * 3,) if form in ONE_OPERAND else (x * 3, y * 5)
    out = plgpu.kernel(form, out_type=SHAPE, **words)(*operands)
    return {"out": out, **{f"operand {number}": operand * 2 for number, operand in enumerate(operands)}}


def _make(number: int, form: Callable[..., None]) -> Case:
    words = FORMS[form][1]
    if number % 2 and form not in LANE_ALONE:
        words = words | {"compiler_params": WARPGROUP}
    return Case(name=form.__name__, function=partial(run, form, words), args=(Arg(shape=(256,)), Arg(shape=(256,))))


CASES = tuple(_make(number, form) for number, form in enumerate(FORMS))
