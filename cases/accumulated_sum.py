"""A kernel adds the sum of an array to a number that is passed to it as an input; it has an output only because a call
needs one (https://github.com/NVIDIA/warp/issues/745, where the kernel is one of Warp's, called through JAX's FFI, and
the number did not change under `jax.jit`, or did not build on what the last call had left).

- `unused`: the report's own. The output is unused, and the call is gone before XLA sees it
- `returned`: the output is returned, too, and the call is kept. The number is a zero that the program makes itself
- `argument`: the number is an argument: the caller's array holds the sum afterwards
- `twice`: two calls on one number, of which the second should build on the first

The kernel is a Triton kernel here, for one GPU that need not be present. The report's observation outside of `jax.jit`,
where each call is a program of its own, is `argument`.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

SIZE = 1024
VALUES = Arg(shape=(SIZE,), draw=Draw(kind="uniform", seed=0))
TOTAL = Arg(shape=(1,), draw=Draw(seed=1))
ARGS = {"unused": (VALUES,), "returned": (VALUES,), "argument": (VALUES, TOTAL), "twice": (VALUES,)}

EXPECTED: dict[str, str | dict[str, str]] = {
    "unused": {"total": "stale"},
    "returned": "fresh",
    "argument": "fresh",
    "twice": {"copy": "fresh", "*": "stale"},
}
"""Of `hidden` mode. In `unused` the call is missing, and the total is what it was before."""
ROUNDED = ("LD017?",)
"""The programs of the grid add to one number in another order on each run: by rounding, a device's results may differ."""
EXPECTED_RULES = {
    "unused": ("LD002", "LD006", "LD007"),
    "returned": ("LD006", "LD009", "LD017"),
    "argument": ("LD006", "LD009", *ROUNDED),
    "twice": ("LD002", "LD006", "LD008", "LD009", "LD017"),
}


def compute(variant: str, mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the sum, by the kernel in `mode`, and what else the variant returns."""
    from kernels.accumulate.api import add_sum

    return _compute(variant, partial(add_sum, mode=mode), *arrays)


def compute_reference(variant: str, *arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return _compute(variant, lambda values, total: (values, total + values.sum()), *arrays)


def _compute(variant: str, add_sum: Callable[..., Any], values: Any, total: Any = None) -> dict[str, Any]:
    import jax.numpy as jnp

    if total is None:
        total = jnp.zeros((1,), jnp.float32)
    copy, total = add_sum(values, total)
    if variant == "twice":
        other, total = add_sum(values, total)
        return {"copy": copy, "other": other, "total": total}
    return {"total": total} if variant == "unused" else {"copy": copy, "total": total}


CASES = tuple(
    Case(
        name="accumulated_sum",
        function=partial(compute, variant, mode),
        args=ARGS[variant],
        params=(variant, mode),
        expected="fresh" if mode is Mode.ALIASED else EXPECTED[variant],
        expected_rules=ROUNDED if mode is Mode.ALIASED else EXPECTED_RULES[variant],
        reference=partial(compute_reference, variant),
        about="NVIDIA/warp issue 745: an input that a kernel adds to",
    )
    for variant, mode in itertools.product(ARGS, (Mode.HIDDEN, Mode.ALIASED))
)
