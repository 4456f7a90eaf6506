"""The Pallas twin of the cross entropy kernel: `pallas_call` on Triton, whose kernel stores the gradient over its own
input.

The doubt: Pallas wraps and rewrites what it is given, so a write to an input may be refused, copied or declared on
the way. It is not: the Triton IR inside of the call stores through the operand's pointer, and the call does
not say so. What replay runs is Triton's own Python source, which a Pallas kernel has not: these cases have verdicts,
and no numbers.

- `gradient`: loss and gradient, unchanged
- `products`: the gradient enters two matrix products, as in a fused linear cross entropy
- `bfloat16`: the same with input and weight in bf16, where XLA folds the cast of the logits
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

EMBEDDING = 64
EXPECTED: dict[str, str | dict[str, str]] = {
    "gradient": "fresh",
    "products": {"loss": "fresh", "*": "latent"},
    "bfloat16": {"loss": "fresh", "*": "stale"},
}
"""Of `hidden` mode."""
EXPECTED_RULES = {"gradient": ("LD006",), "products": ("LD003", "LD006"), "bfloat16": ("LD002", "LD006")}


def make_args(variant: str) -> tuple[Arg, ...]:
    """Returns input, weight and targets."""
    dtype = "bfloat16" if variant == "bfloat16" else "float32"
    return (
        Arg(shape=(WIDE.context, EMBEDDING), dtype=dtype, draw=Draw(seed=0)),
        Arg(shape=(EMBEDDING, WIDE.vocabulary), dtype=dtype, draw=Draw(seed=1)),
        Arg(shape=(WIDE.context,), dtype="int32", draw=Draw(kind="randint", seed=2, high=WIDE.vocabulary)),
    )


def compute(variant: str, mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss and what follows from the gradient, by the kernel in `mode`."""
    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient
    from kernels.seed_flce.pallas import launch

    return _compute(variant, partial(cross_entropy_with_gradient, mode=mode, launch=launch), *arrays)


def compute_reference(variant: str, *arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax

    from kernels.cross_entropy.reference import cross_entropy

    return _compute(variant, jax.value_and_grad(cross_entropy), *arrays)


def _compute(
    variant: str, loss_and_gradient: Callable[..., Any], input: Any, weight: Any, targets: Any
) -> dict[str, Any]:
    loss, gradient = loss_and_gradient((input @ weight).astype("float32"), targets)
    gradient = gradient.astype(input.dtype)
    if variant == "gradient":
        return {"loss": loss, "logits": gradient}
    return {"loss": loss, "input": gradient @ weight.T, "weight": input.T @ gradient}


CASES = tuple(
    Case(
        name="pallas_cross_entropy",
        function=partial(compute, variant, mode),
        args=make_args(variant),
        params=(variant, mode),
        expected=EXPECTED[variant] if mode is Mode.HIDDEN else "fresh",
        expected_rules=EXPECTED_RULES[variant] if mode is Mode.HIDDEN else (),
        reference=partial(compute_reference, variant),
        about="Pallas on Triton: the kernel stores to the reference of an input",
    )
    for variant, mode in itertools.product(EXPECTED, (Mode.HIDDEN, Mode.ALIASED, Mode.OUT_OF_PLACE))
)
