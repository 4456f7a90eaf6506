"""Layer normalization whose backward pass overwrites the cotangent with the gradient of the input.

The normalized array is added to a residual stream, whose cotangent is the same array: what `rms_norm` calls `after`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.layer_norm.shapes import SMALL
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

ARGS = (
    Arg(shape=tuple(SMALL), draw=Draw(seed=0)),
    Arg(shape=(SMALL.hidden, SMALL.hidden), draw=Draw(seed=1)),
    Arg(shape=(SMALL.hidden,), draw=Draw(seed=2)),
    Arg(shape=(SMALL.hidden,), draw=Draw(seed=3)),
    Arg(shape=(SMALL.hidden, SMALL.hidden), draw=Draw(seed=4)),
    Arg(shape=tuple(SMALL), draw=Draw(seed=5)),
)

EXPECTED = {
    Mode.HIDDEN: {"input": "stale", "first": "latent"},
    Mode.TRIVIAL: {"input": "clobbered"},
    Mode.BARRIER: {"input": "clobbered"},
}
EXPECTED_RULES = {
    Mode.HIDDEN: ("LD001", "LD003", "LD006"),
    Mode.TRIVIAL: ("LD004", "LD006"),
    Mode.BARRIER: ("LD004", "LD006"),
}
"""An order after the kernel helps the gradient that the kernel writes, and harms the residual's."""


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss and the gradients of all but the last array, the normalization by the kernel in `mode`."""
    from kernels.layer_norm.api import layer_norm

    return _compute(partial(layer_norm, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.layer_norm.reference import layer_norm

    return _compute(layer_norm, *arrays)


def _compute(layer_norm: Callable[..., Any], *arrays: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    *differentiated, wanted = arrays

    def loss_of(input: Any, first: Any, scale: Any, bias: Any, second: Any) -> Any:
        return jnp.vdot((input + layer_norm(input @ first, scale, bias)) @ second, wanted)

    loss, gradients = jax.value_and_grad(loss_of, argnums=(0, 1, 2, 3, 4))(*differentiated)
    return {"loss": loss, **dict(zip(("input", "first", "scale", "bias", "second"), gradients, strict=True))}


CASES = tuple(
    Case(
        name="layer_norm",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected=EXPECTED.get(mode, "fresh"),
        expected_rules=EXPECTED_RULES.get(mode, ()),
        reference=compute_reference,
        about="the backward pass overwrites the cotangent, which a residual needs, too",
    )
    for mode in Mode
)
