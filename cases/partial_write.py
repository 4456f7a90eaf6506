"""Outputs that a kernel writes in part, or not at all.

- `range`: a kernel multiplies elements 1 to 3 of 4 and leaves the others (https://github.com/jax-ml/jax/issues/20227,
  where the others were those of the input that was in the bytes before). By Pallas on Triton as in the report, and by
  jax-triton
- `nothing`: a kernel that stores nothing at all to two outputs, each aliased to an input, whose values should come
  back (https://github.com/jax-ml/jax/issues/24023, where they came back as zeros: on a TPU)
"""

from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

START, END = 1, 3
ARGS = (Arg(shape=(4,), draw=Draw(seed=0)), Arg(shape=(4,), draw=Draw(seed=1)))


def compute_range(backend: str, mode: Mode, x: Any, y: Any) -> dict[str, Any]:
    """Returns the product of a part of x and y, by the kernel of `backend` in `mode`."""
    from kernels.partial_write.api import multiply_range

    return {"product": multiply_range(x, y, START, END, mode=mode, backend=backend)}


def compute_range_reference(x: Any, y: Any) -> dict[str, Any]:
    """Returns the same in plain jnp: x elsewhere."""
    return {"product": x.at[START:END].multiply(y[START:END])}


def compute_nothing(x: Any, y: Any) -> dict[str, Any]:
    """Returns both arrays, by a kernel that stores nothing."""
    from kernels.partial_write.api import leave

    x, y = leave(x, y)
    return {"x": x, "y": y}


def compute_nothing_reference(x: Any, y: Any) -> dict[str, Any]:
    """Returns both arrays."""
    return {"x": 1.0 * x, "y": 1.0 * y}


CASES = (
    *(
        Case(
            name="partial_write",
            function=partial(compute_range, backend, mode),
            args=ARGS,
            params=("range", backend, mode),
            expected={"product": "fresh" if mode is Mode.ALIASED else "unknown|fresh"},  # unknown once it is replayed
            expected_rules=("LD013", "LD016") if mode is Mode.OUT_OF_PLACE else (),
            reference=compute_range_reference,
            about="jax issue 20227: elements of an output that nobody stores",
        )
        for backend in ("pallas", "triton")
        for mode in (Mode.OUT_OF_PLACE, Mode.ALIASED)
    ),
    Case(
        name="partial_write",
        function=compute_nothing,
        args=ARGS,
        params=("nothing", "pallas", Mode.ALIASED),
        expected="fresh",
        expected_rules=(),
        reference=compute_nothing_reference,
        about="jax issue 24023: aliased outputs that nobody stores",
    ),
)
