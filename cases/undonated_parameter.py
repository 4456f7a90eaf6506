"""The kernel overwrites an argument of the program. XLA was not told that it may: the array still belongs to the
caller, and holds a gradient when the program is done. Every output may be right.

`donated` says that the caller gives the array away; then the write surprises no caller.
"""

import itertools
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw


def make_args(*, donated: bool) -> tuple[Arg, ...]:
    """Returns logits and targets."""
    return (
        Arg(shape=(WIDE.context, WIDE.vocabulary), draw=Draw(seed=0), donate=donated),
        Arg(shape=(WIDE.context,), dtype="int32", draw=Draw(kind="randint", seed=1, high=WIDE.vocabulary)),
    )


def compute(mode: Mode, logits: Any, targets: Any) -> dict[str, Any]:
    """Returns loss and gradient by the kernel in `mode`."""
    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    loss, gradient = cross_entropy_with_gradient(logits, targets, mode=mode)
    return {"loss": loss, "logits": gradient}


def compute_reference(logits: Any, targets: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax

    from kernels.cross_entropy.reference import cross_entropy

    loss, gradient = jax.value_and_grad(cross_entropy)(logits, targets)
    return {"loss": loss, "logits": gradient}


def expect_rules(mode: Mode, *, donated: bool) -> tuple[str, ...]:
    """Returns the rules that speak: the outputs are right in all modes."""
    if mode is Mode.ALIASED:
        return ()
    return ("LD006",) if donated else ("LD006", "LD009")


CASES = tuple(
    Case(
        name="undonated_parameter",
        function=partial(compute, mode),
        args=make_args(donated=donated),
        params=("donated" if donated else "kept", mode),
        expected="fresh",
        expected_rules=expect_rules(mode, donated=donated),
        reference=compute_reference,
        about="the kernel overwrites the caller's own array",
    )
    for donated, mode in itertools.product((False, True), (Mode.HIDDEN, Mode.ALIASED))
)
