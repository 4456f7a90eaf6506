"""A Mosaic GPU kernel that doubles the rows of an array one by one in a loop: XLA passes it the address of each row."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kernels.modes import Mode
from kernels.mosaic_scale.api import double
from ligerdiag import Arg, Case

ROWS = 4


def double_rows(mode: Mode, x: Any) -> dict[str, Any]:
    def body(i: Any, carry: Any) -> Any:
        h, total = carry
        doubled, contents = double(h[i], way="stores", mode=mode)
        return h.at[i].set(contents), total + doubled

    rows, total = jax.lax.fori_loop(0, ROWS, body, (jnp.cos(x), jnp.zeros(x.shape[1])))
    return {"rows": rows, "total": total}


CASES = tuple(
    Case(name="row_by_row", params=(mode,), function=partial(double_rows, mode), args=(Arg(shape=(ROWS, 128)),))
    for mode in (Mode.HIDDEN, Mode.ALIASED)
)
