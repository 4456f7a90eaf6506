"""The seed's four tests of the cross entropy kernel alone, in `hidden` mode as it has them, and `aliased` beside them.

The ids: mode, batch, context, vocabulary, probability that a target is kept. The output `logits` is the gradient that
should stand there. The logits are an argument of the program: the outputs are right, and a hidden write goes to the caller's
own array, which is what LD009 is expected to say. https://github.com/phlippe/liger_kernels
"""

import itertools
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import SEED_LARGE, SEED_SMALL, Shape
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

IGNORE_INDEX = -100


def make_args(shape: Shape, kept: float) -> tuple[Arg, ...]:
    """Returns logits, targets and mask; a target is kept with probability `kept`."""
    tokens = (shape.batch, shape.context)
    return (
        Arg(shape=tuple(shape), draw=Draw(seed=0)),
        Arg(shape=tokens, dtype="int32", draw=Draw(kind="randint", seed=1, low=0, high=shape.vocabulary)),
        Arg(shape=tokens, dtype="bool", draw=Draw(kind="bernoulli", seed=2, scale=kept)),
    )


def compute(mode: Mode, logits: Any, targets: Any, mask: Any) -> dict[str, Any]:
    """Returns loss and gradient by the kernel in `mode`."""
    import jax.numpy as jnp

    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    targets = jnp.where(mask, targets, IGNORE_INDEX)
    loss, gradient = cross_entropy_with_gradient(logits, targets, ignore_index=IGNORE_INDEX, mode=mode)
    return {"loss": loss, "logits": gradient}


def compute_reference(logits: Any, targets: Any, mask: Any) -> dict[str, Any]:
    """Returns loss and gradient in plain jnp."""
    import jax
    import jax.numpy as jnp

    from kernels.cross_entropy.reference import cross_entropy

    targets = jnp.where(mask, targets, IGNORE_INDEX)
    loss, gradient = jax.value_and_grad(cross_entropy)(logits, targets, ignore_index=IGNORE_INDEX)
    return {"loss": loss, "logits": gradient}


def _list_rules(mode: Mode, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Returns the expected rules: the call overwrites logits that the caller keeps, so a declared write needs a copy."""
    if mode is Mode.HIDDEN:
        return ("LD006", "LD009")
    return ("LD027",) if shape == SEED_LARGE else ()


CASES = tuple(
    Case(
        name="seed_cross_entropy",
        function=partial(compute, mode),
        args=make_args(shape, kept),
        params=(mode, *shape, kept),
        expected="fresh",
        expected_rules=_list_rules(mode, shape),
        expected_elsewhere={"seed": {"logits": "latent"}} if mode is Mode.HIDDEN else {},
        reference=compute_reference,
        about="phlippe/liger_kernels: the kernel alone, not chunked",
    )
    for mode, shape, kept in itertools.product((Mode.HIDDEN, Mode.ALIASED), (SEED_SMALL, SEED_LARGE), (0.9, 0.5))
)
