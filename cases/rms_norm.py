"""RMS normalization whose backward pass overwrites the cotangent with the gradient of the input.

- `before`: the normalized array goes into a product, as before an attention or an MLP. Nothing else needs the cotangent
- `after`: it is added to a residual stream, as Gemma 2 has it after each. The residual needs the cotangent, too, so Liger
  Kernel's RMSNorm has `in_place=False` (https://github.com/linkedin/Liger-Kernel, src/liger_kernel/ops/rms_norm.py)
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.modes import Mode
from kernels.rms_norm.shapes import SMALL
from ligerdiag.model.case import Arg, Case, Draw

ARGS = (
    Arg(shape=tuple(SMALL), draw=Draw(seed=0)),
    Arg(shape=(SMALL.hidden, SMALL.hidden), draw=Draw(seed=1)),
    Arg(shape=(SMALL.hidden,), draw=Draw(seed=2)),
    Arg(shape=(SMALL.hidden, SMALL.hidden), draw=Draw(seed=3)),
    Arg(shape=tuple(SMALL), draw=Draw(seed=4)),
)

EXPECTED = {
    ("before", Mode.HIDDEN): {"input": "stale", "first": "latent"},
    ("after", Mode.HIDDEN): {"input": "stale", "first": "latent"},
    ("after", Mode.TRIVIAL): {"input": "clobbered"},
    ("after", Mode.BARRIER): {"input": "clobbered"},
}
"""An order after the kernel helps the gradient that the kernel writes, and harms the residual's."""
EXPECTED_RULES = {
    ("before", Mode.HIDDEN): ("LD001", "LD003", "LD006"),
    ("before", Mode.TRIVIAL): ("LD006",),
    ("before", Mode.BARRIER): ("LD006",),
    ("after", Mode.HIDDEN): ("LD001", "LD003", "LD006"),
    ("after", Mode.TRIVIAL): ("LD004", "LD006"),
    ("after", Mode.BARRIER): ("LD004", "LD006"),
}


def compute(variant: str, mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss and the gradients of all but the last array, the normalization by the kernel in `mode`."""
    from kernels.rms_norm.api import rms_norm

    return _compute(variant, partial(rms_norm, offset=1.0, casting="gemma", mode=mode), *arrays)


def compute_reference(variant: str, *arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.rms_norm.reference import rms_norm

    return _compute(variant, partial(rms_norm, offset=1.0, casting="gemma"), *arrays)


def _compute(variant: str, rms_norm: Callable[..., Any], *arrays: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    *differentiated, wanted = arrays

    def loss_of(input: Any, first: Any, scale: Any, second: Any) -> Any:
        normalized = rms_norm(input @ first, scale)
        if variant == "after":
            normalized = input + normalized
        return jnp.vdot(normalized @ second, wanted)

    loss, gradients = jax.value_and_grad(loss_of, argnums=(0, 1, 2, 3))(*differentiated)
    return {"loss": loss, **dict(zip(("input", "first", "scale", "second"), gradients, strict=True))}


CASES = tuple(
    Case(
        name="rms_norm",
        function=partial(compute, variant, mode),
        args=ARGS,
        params=(variant, mode),
        expected=EXPECTED.get((variant, mode), "fresh"),
        expected_rules=EXPECTED_RULES.get((variant, mode), ()),
        reference=partial(compute_reference, variant),
        about="Liger Kernel's in_place: the backward pass overwrites the cotangent",
    )
    for variant, mode in itertools.product(("before", "after"), Mode)
)
