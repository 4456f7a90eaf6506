"""Permutes the rows of an array."""

import jax
import triton

from kernels.modes import UNDECLARED, Mode
from kernels.permute_rows.triton import permute_rows_kernel
from kernels.triton_call import inplace_call


def permute_rows(values: jax.Array, source: jax.Array, *, mode: str = "out_of_place") -> jax.Array:
    """Returns `values[source]`; in mode `aliased` in the bytes of the values, although the kernel is not safe in place.

    values: float[rows, columns]; source: i32[rows], a permutation. Raises ValueError for modes that declare no output.
    """
    mode = Mode(mode)
    if mode in UNDECLARED:
        raise ValueError(
            f"Expected mode 'aliased' or 'out_of_place' but got mode='{mode}': the rows are the only output"
        )
    rows, columns = values.shape
    if source.shape != (rows,):
        raise ValueError(f"Expected one source for each row but got {values.shape=} and {source.shape=}")
    _, permuted = inplace_call(
        permute_rows_kernel,
        values,
        source,
        written=0,
        outputs=(),
        grid=(rows,),
        mode=mode,
        COLUMNS=columns,
        BLOCK=triton.next_power_of_2(columns),
    )
    return permuted
