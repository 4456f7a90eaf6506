"""A kernel that overwrites its operand through a pointer which it makes from an integer: no analysis of pointers can
tell what it hits (https://github.com/pytorch/pytorch/issues/129372, a wish for a mode in which such a kernel is taken
to write everything that it is given; elsewhere a kernel that could not be analysed was taken to write nothing, and
was removed).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

SIZE = 256
ARGS = (
    Arg(shape=(SIZE,), draw=Draw(seed=0)),
    Arg(shape=(SIZE, SIZE), draw=Draw(seed=1)),
    Arg(shape=(), draw=Draw(kind="uniform", seed=2, low=2, high=3)),
)


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns a sum and a product of what the kernel scaled, in `mode`; and the norm of the matrix, which it never sees."""
    from kernels.scale.api import scale_by_address

    return _compute(partial(scale_by_address, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return _compute(lambda values, factor: (values.sum(), values * factor), *arrays)


def _compute(scale: Callable[..., Any], vector: Any, matrix: Any, factor: Any) -> dict[str, Any]:
    total, scaled = scale(matrix @ vector, factor)
    return {"total": total, "product": matrix @ scaled, "norm": (matrix * matrix).sum()}


CASES = tuple(
    Case(
        name="unknown_effect",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected={"norm": "fresh", "*": "unknown"} if mode is Mode.HIDDEN else "fresh",
        expected_rules=("LD014",) if mode is Mode.HIDDEN else (),
        reference=compute_reference,
        about="pytorch issue 129372: a kernel that cannot be analysed",
    )
    for mode in (Mode.HIDDEN, Mode.ALIASED)
)
