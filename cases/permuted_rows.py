"""A kernel brings rows into another order; each of its programs reads a row that another one writes
(https://github.com/NVIDIA/TransformerEngine/pull/2730: the backward pass of `sort_chunks_by_map` had half of its
gradients wrong, in the full test suite only, because input and output stood in the same bytes).

`aliased` puts them there by declaration: the schedule is as requested, and the kernel is not made for it.
`out_of_place` leaves it to XLA. The operand is dead by then and has the shape of the output, and XLA gives the output
bytes of its own all the same.
"""

from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

ROWS, COLUMNS, CHUNKS = 64, 32, 4
ARGS = (Arg(shape=(ROWS, COLUMNS), draw=Draw(seed=0)),)


def make_source() -> Any:
    """Returns for each row where it comes from, i32[rows]: the chunks in reverse, the rows of each in order."""
    import numpy as np

    return np.arange(ROWS, dtype=np.int32).reshape(CHUNKS, -1)[::-1].reshape(-1)


def compute(mode: Mode, values: Any) -> dict[str, Any]:
    """Returns the rows of `2 * values` in another order, by the kernel in `mode`."""
    import jax.numpy as jnp

    from kernels.permute_rows.api import permute_rows

    return {"rows": permute_rows(2 * values, jnp.asarray(make_source()), mode=mode)}


def compute_reference(values: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return {"rows": 2 * values[make_source()]}


CASES = tuple(
    Case(
        name="permuted_rows",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected={"rows": "unknown|fresh" if mode is Mode.ALIASED else "fresh"},  # unknown once it is replayed
        expected_rules=("LD011", "LD016") if mode is Mode.ALIASED else (),
        reference=compute_reference,
        about="TransformerEngine pull request 2730: a permutation in place",
    )
    for mode in (Mode.ALIASED, Mode.OUT_OF_PLACE)
)
