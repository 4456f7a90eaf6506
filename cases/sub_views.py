"""Kernels overwrite parts of one array, which is read as a whole afterwards
(https://github.com/SpeedyWeather/SpeedyWeather.jl/pull/985, where arguments were views of one parent buffer, the
calls that overwrote them were declared to have no effects, and live buffers were laid over each other: NaN).

In JAX a slice is an array of its own. The kernel overwrites that one, and a reader of the whole needs the original:
`whole`. Compiled here, each kernel gets a copy of its slice, and the parent does not change; the gradients are lost, for
their readers are computed from the parent.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

EMBEDDING = 16
ARGS = (
    Arg(shape=(WIDE.context, EMBEDDING), draw=Draw(seed=0)),
    Arg(shape=(EMBEDDING, WIDE.vocabulary), draw=Draw(seed=1)),
    Arg(shape=(WIDE.context,), dtype="int32", draw=Draw(kind="randint", seed=2, high=WIDE.vocabulary)),
)


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns losses and gradients of both halves, by the kernel in `mode`, and the norm of the whole."""
    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    return _compute(partial(cross_entropy_with_gradient, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax

    from kernels.cross_entropy.reference import cross_entropy

    return _compute(jax.value_and_grad(cross_entropy), *arrays)


def _compute(loss_and_gradient: Callable[..., Any], input: Any, weight: Any, targets: Any) -> dict[str, Any]:
    logits = input @ weight
    half = WIDE.context // 2
    loss, gradient = loss_and_gradient(logits[:half], targets[:half])
    other_loss, other_gradient = loss_and_gradient(logits[half:], targets[half:])
    return {
        "loss": loss,
        "other_loss": other_loss,
        "first": gradient @ weight.T,
        "second": other_gradient @ weight.T,
        "whole": logits @ weight.T,
    }


CASES = tuple(
    Case(
        name="sub_views",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected={"first": "stale", "second": "stale", "*": "fresh"} if mode is Mode.HIDDEN else "fresh",
        expected_rules=("LD002", "LD006") if mode is Mode.HIDDEN else (),
        reference=compute_reference,
        about="SpeedyWeather.jl pull request 985: views of one parent are overwritten",
    )
    for mode in (Mode.HIDDEN, Mode.ALIASED)
)
