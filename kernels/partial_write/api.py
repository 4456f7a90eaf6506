"""Calls kernels that store only a part of an array."""

import jax
import triton

from kernels.modes import UNDECLARED, Mode
from kernels.partial_write.pallas import leave_pallas, multiply_range_pallas
from kernels.partial_write.triton import multiply_range_kernel
from kernels.triton_call import inplace_call


def multiply_range(  # the kernel's own parameters
    x: jax.Array, y: jax.Array, start: int, end: int, *, mode: str = "aliased", backend: str = "triton"
) -> jax.Array:
    """Returns `x` with the elements from `start` to `end` (exclusive) multiplied by the same elements of `y`. In the mode
    `out_of_place`, all other elements of the result hold arbitrary bytes.

    x, y: float[size]. backend: `triton` or `pallas`; Pallas needs an `end - start` that is a power of two. Raises ValueError
    for modes that declare no output.
    """
    mode = Mode(mode)
    if mode in UNDECLARED:
        raise ValueError(
            f"Expected mode 'aliased' or 'out_of_place' but got mode='{mode}': the kernel has no other output"
        )
    if backend not in ("triton", "pallas"):
        raise ValueError(f"Expected backend 'triton' or 'pallas' but got {backend=}")
    if not 0 <= start < end <= x.size:
        raise ValueError(f"Expected a range inside of [0, {x.size}) but got {start=} and {end=}")
    if backend == "pallas":
        return multiply_range_pallas(x, y, start=start, end=end, aliased=mode is Mode.ALIASED)
    _, product = inplace_call(
        multiply_range_kernel,
        x,
        y,
        written=0,
        outputs=(),
        grid=(1,),
        mode=mode,
        START=start,
        END=end,
        BLOCK=triton.next_power_of_2(end - start),
    )
    return product


def leave(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Passes both arrays through a Pallas kernel and returns them, unchanged. The kernel declares that it overwrites the
    arrays, but stores nothing.
    """
    return leave_pallas(x, y)
