"""The cross entropy kernel with all of its options, differentiated, its logits the product of a layer, in every mode.

- `mean`: the gradient is divided by the count inside of the kernel, and goes into two products as it is
- `rows`: a loss for each row; the gradient of each is multiplied by a cotangent of its own afterwards
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

EMBEDDING = 64
OPTIONS = {"label_smoothing": 0.1, "logit_soft_cap": 8.0, "z_loss": 1e-3}
REDUCTION = {"mean": "mean", "rows": "none"}


def make_args() -> tuple[Arg, ...]:
    """Returns input, weight, both bf16, targets and which of them count."""
    return (
        Arg(shape=(WIDE.context, EMBEDDING), dtype="bfloat16", draw=Draw(seed=0)),
        Arg(shape=(EMBEDDING, WIDE.vocabulary), dtype="bfloat16", draw=Draw(seed=1, scale=EMBEDDING**-0.5)),
        Arg(shape=(WIDE.context,), dtype="int32", draw=Draw(kind="randint", seed=2, high=WIDE.vocabulary)),
        Arg(shape=(WIDE.context,), dtype="bool", draw=Draw(kind="bernoulli", seed=3, scale=0.8)),
    )


def compute(variant: str, mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns loss and gradients by the kernel in `mode`."""
    from kernels.cross_entropy.api import cross_entropy

    return _compute(variant, partial(cross_entropy, mode=mode), *arrays)


def compute_reference(variant: str, *arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.cross_entropy.reference import cross_entropy

    return _compute(variant, cross_entropy, *arrays)


def _compute(  # noqa: PLR0917 - a case passes its arrays by position
    variant: str, cross_entropy: Callable[..., Any], input: Any, weight: Any, targets: Any, where: Any
) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    def loss_of(input: Any, weight: Any) -> Any:
        loss = cross_entropy(input @ weight, targets, where=where, reduction=REDUCTION[variant], **OPTIONS)
        return (loss * jnp.arange(1.0, len(input) + 1)).sum() if variant == "rows" else loss

    loss, (grad_input, grad_weight) = jax.value_and_grad(loss_of, argnums=(0, 1))(input, weight)
    return {"loss": loss, "input": grad_input, "weight": grad_weight}


ROUNDED_AWAY = ("LD006", "LD012", "LD016")
"""The mean makes the gradient so small that `trivial`, which adds and subtracts a sum, leaves nothing of it."""

CASES = tuple(
    Case(
        name="cross_entropy_modes",
        function=partial(compute, variant, mode),
        args=make_args(),
        params=(variant, mode),
        expected="hazard" if mode is Mode.HIDDEN else "fresh",
        expected_rules=ROUNDED_AWAY if (variant, mode) == ("mean", Mode.TRIVIAL) else None,
        reference=partial(compute_reference, variant),
        about="the cross entropy of kernels/ with its options, in every mode",
        mitigation=mode,
    )
    for variant, mode in itertools.product(REDUCTION, Mode)
)
