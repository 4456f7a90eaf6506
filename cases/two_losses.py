"""Two losses on one set of logits: each call of the kernel overwrites them, and only one can be the first.

- `same`: the same targets twice, as where a loss is computed again for a log
- `other`: two sets of targets, as where a model has a main and an auxiliary loss
- `rows`: two sets of targets, and logits in three dimensions: each loss makes rows of them by a reshape of its own, so the
  author has two values where XLA has one; the second loss is right because its kernel happens to come first
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

EMBEDDING = 16
EXPECTED = {
    "same": {"loss": "fresh", "*": "stale"},
    "other": {"other_loss": "stale", "*": "clobbered"},
    "rows": {"other_loss": "latent", "*": "clobbered"},
}
"""Of `hidden` mode, where the second kernel comes first in the schedule, or is merged with the first."""
EXPECTED_RULES = {
    "same": ("LD002", "LD006", "LD008", "LD016"),
    "other": ("LD001", "LD004", "LD006", "LD016"),
    "rows": ("LD003", "LD004", "LD006", "LD008"),
}
"""LD016: handed one value, the second kernel computes its loss from a gradient in program order already."""


def make_args(variant: str) -> tuple[Arg, ...]:
    """Returns input, weight and two sets of targets."""
    tokens = (2, WIDE.context // 2) if variant == "rows" else (WIDE.context,)
    return (
        Arg(shape=(*tokens, EMBEDDING), draw=Draw(seed=0)),
        Arg(shape=(EMBEDDING, WIDE.vocabulary), draw=Draw(seed=1)),
        Arg(shape=tokens, dtype="int32", draw=Draw(kind="randint", seed=2, high=WIDE.vocabulary)),
        Arg(shape=tokens, dtype="int32", draw=Draw(kind="randint", seed=3, high=WIDE.vocabulary)),
    )


def compute(variant: str, mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns both losses and the gradient of the input of each, by the kernel in `mode`."""
    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    return _compute(variant, partial(cross_entropy_with_gradient, mode=mode), *arrays)


def compute_reference(variant: str, *arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax

    from kernels.cross_entropy.reference import cross_entropy

    return _compute(variant, jax.value_and_grad(cross_entropy), *arrays)


def _compute(  # noqa: PLR0917 - a case passes its arrays by position
    variant: str, loss_and_gradient: Callable[..., Any], input: Any, weight: Any, first: Any, second: Any
) -> dict[str, Any]:
    logits = input @ weight
    loss, gradient = loss_and_gradient(logits, first)
    other_loss, other_gradient = loss_and_gradient(logits, first if variant == "same" else second)
    return {
        "loss": loss,
        "other_loss": other_loss,
        "input": gradient @ weight.T,
        "other_input": other_gradient @ weight.T,
    }


CASES = tuple(
    Case(
        name="two_losses",
        function=partial(compute, variant, mode),
        args=make_args(variant),
        params=(variant, mode),
        expected="fresh" if mode is Mode.ALIASED else EXPECTED[variant],
        expected_rules=() if mode is Mode.ALIASED else EXPECTED_RULES[variant],
        reference=partial(compute_reference, variant),
        about="two kernels overwrite one set of logits",
    )
    for variant, mode in itertools.product(("same", "other", "rows"), (Mode.HIDDEN, Mode.ALIASED))
)
