"""The logits are a constant of the program: a NumPy array that the function closes over.

A constant has one place in memory for as long as the program is loaded. A kernel that overwrites it leaves the next
execution a gradient to start from: the first one is right, and every later one is not.
"""

from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

ARGS = (Arg(shape=(WIDE.context,), dtype="int32", draw=Draw(kind="randint", seed=1, high=WIDE.vocabulary)),)


def make_logits() -> Any:
    """Returns the logits, f32[context, vocabulary], the same ones every time."""
    import numpy as np

    return np.random.default_rng(0).normal(size=(WIDE.context, WIDE.vocabulary)).astype(np.float32)


def compute(mode: Mode, targets: Any) -> dict[str, Any]:
    """Returns loss and gradient by the kernel in `mode`."""
    import jax.numpy as jnp

    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    loss, gradient = cross_entropy_with_gradient(jnp.asarray(make_logits()), targets, mode=mode)
    return {"loss": loss, "logits": gradient}


def compute_reference(targets: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax
    import jax.numpy as jnp

    from kernels.cross_entropy.reference import cross_entropy

    loss, gradient = jax.value_and_grad(cross_entropy)(jnp.asarray(make_logits()), targets)
    return {"loss": loss, "logits": gradient}


CASES = tuple(
    Case(
        name="constant",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected="fresh",
        expected_rules=("LD006", "LD009", "LD017") if mode is Mode.HIDDEN else (),
        reference=compute_reference,
        about="the kernel overwrites a constant of the program",
    )
    for mode in (Mode.HIDDEN, Mode.ALIASED)
)
