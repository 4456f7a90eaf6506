"""Doubles rows in place; the launcher tries the kernel's configurations when the call first runs."""

import jax
import triton

from kernels.modes import Mode
from kernels.triton_call import inplace_call
from kernels.tuned_scale.triton import double_rows_kernel


def double_rows(rows: jax.Array, *, mode: str = "aliased") -> tuple[jax.Array, jax.Array]:
    """Returns the sum of each row, f32[rows], and `2 * rows`: the array that has the new contents of `rows` in this mode
    (see `kernels.modes.Mode`).

    rows: f32[rows, columns]. If the write is not declared, each configuration that the launcher tries doubles the result of
    the previous one.
    """
    if rows.ndim != 2:
        raise ValueError(f"Expected rows (rows, columns) but got {rows.shape=}")
    count, columns = rows.shape
    (sums,), doubled = inplace_call(
        double_rows_kernel,
        rows,
        written=0,
        outputs=(jax.ShapeDtypeStruct((count,), rows.dtype),),
        grid=(count,),
        mode=Mode(mode),
        COLUMNS=columns,
        BLOCK=triton.next_power_of_2(columns),
    )
    return sums, doubled
