"""One array is handed to a kernel twice, to read and to overwrite: `d = z + beta * d` by a routine `add(z, beta, d,
d)` (https://github.com/EnzymeAD/Enzyme-JAX/issues/2968, where a method of conjugate gradients stood still: of the two
views of the buffer the runtime kept the one that had only been read, and the update was lost).

XLA hands both operands the same bytes. Where the write is declared (`aliased`), the one that is overwritten gets a
copy, and the update is an output.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

SIZE = 256
ARGS = (
    Arg(shape=(SIZE,), draw=Draw(seed=0)),
    Arg(shape=(), draw=Draw(seed=1)),
    Arg(shape=(SIZE,), draw=Draw(seed=2)),
    Arg(shape=(SIZE, SIZE), draw=Draw(seed=3)),
)


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the squares of a search direction and the step along it, by the kernel in `mode`."""
    from kernels.add_scaled.api import add_scaled

    return _compute(partial(add_scaled, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""

    def add_scaled(residual: Any, factor: Any, direction: Any) -> Any:
        updated = residual + factor * direction
        return (updated * updated).sum(), updated

    return _compute(add_scaled, *arrays)


def _compute(add_scaled: Callable[..., Any], residual: Any, factor: Any, direction: Any, matrix: Any) -> dict[str, Any]:
    squares, updated = add_scaled(residual, factor, matrix @ direction)
    return {"squares": squares, "step": matrix @ updated}


CASES = tuple(
    Case(
        name="same_buffer_twice",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected={"squares": "fresh", "step": "latent"} if mode is Mode.HIDDEN else "fresh",
        expected_rules=("LD003", "LD006") if mode is Mode.HIDDEN else (),
        reference=compute_reference,
        about="Enzyme-JAX issue 2968: one buffer for an input and an output",
    )
    for mode in (Mode.HIDDEN, Mode.ALIASED, Mode.OUT_OF_PLACE)
)
