"""Doubles a vector in place, by a Mosaic GPU kernel."""

from typing import Any, Literal

import jax
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels.modes import Mode

type Way = Literal["stores", "copies"]


def double(values: jax.Array, *, way: Way, mode: Mode) -> tuple[jax.Array, jax.Array]:
    """Returns `2 * values` twice: the kernel's output, and the array with the new contents of `values` (see
    `kernels.modes.Mode`).

    values: f32[n], n a multiple of 128. way: whether the kernel writes by plain stores or by TMA copies. Raises ValueError
    for the modes `trivial` and `barrier`.
    """
    shape = jax.ShapeDtypeStruct(values.shape, values.dtype)
    scratch = [] if way == "stores" else [plgpu.SMEM(values.shape, values.dtype), plgpu.Barrier()]
    body = _store if way == "stores" else _copy
    match mode:
        case Mode.HIDDEN:
            return plgpu.kernel(_in_place(body), out_type=shape, scratch_types=scratch)(values), values
        case Mode.ALIASED:
            ref = jax.new_ref(values)
            doubled = plgpu.kernel(_in_place(body), out_type=shape, scratch_types=scratch)(ref)
            return doubled, jax.freeze(ref)
        case Mode.OUT_OF_PLACE:
            doubled, contents = plgpu.kernel(body, out_type=(shape, shape), scratch_types=scratch)(values)
            return doubled, contents
        case _:
            raise ValueError(f"Expected hidden, aliased or out_of_place but got {mode=}")


def _in_place(body: Any) -> Any:
    def double_in_place(values_ref: Any, doubled_ref: Any, *scratch: Any) -> None:
        body(values_ref, doubled_ref, values_ref, *scratch)

    return double_in_place


def _store(values_ref: Any, doubled_ref: Any, contents_ref: Any) -> None:
    doubled = values_ref[...] * 2
    doubled_ref[...] = doubled
    contents_ref[...] = doubled


def _copy(values_ref: Any, doubled_ref: Any, contents_ref: Any, shared: Any, barrier: Any) -> None:
    plgpu.copy_gmem_to_smem(values_ref, shared, barrier)
    plgpu.barrier_wait(barrier)
    shared[...] = shared[...] * 2
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(shared, doubled_ref)
    plgpu.copy_smem_to_gmem(shared, contents_ref)
    plgpu.wait_smem_to_gmem(0)
