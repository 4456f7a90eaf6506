"""The kernel overwrites the carry of a scan, and the next step starts from the overwritten values.

- `gradient`: the gradient itself is carried on. In `hidden` mode that is the array that came in; JAX sees a loop with
  unchanged logits, and returns the caller's own array for the last gradient. XLA, too, keeps one array for all of it:
  the kernel overwrites the argument, and the output is copied from it afterwards. It is right, and the argument is lost
- `descent`: a step of gradient descent is carried on, so that each step needs the logits and their gradient. In `hidden`
  mode both are one array, and the program is wrong as it is written, whatever the schedule
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

STEPS = 3
RATE = 4.0
ARGS = (
    Arg(shape=(WIDE.context, WIDE.vocabulary), draw=Draw(seed=0)),
    Arg(shape=(STEPS, WIDE.context), dtype="int32", draw=Draw(kind="randint", seed=1, high=WIDE.vocabulary)),
)


def compute(carried: str, mode: Mode, logits: Any, targets: Any) -> dict[str, Any]:
    """Returns the losses and the last logits, by the kernel in `mode`."""
    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    return _scan(carried, partial(cross_entropy_with_gradient, mode=mode), logits, targets)


def compute_reference(carried: str, logits: Any, targets: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax

    from kernels.cross_entropy.reference import cross_entropy

    return _scan(carried, jax.value_and_grad(cross_entropy), logits, targets)


def _scan(carried: str, loss_and_gradient: Callable[..., Any], logits: Any, targets: Any) -> dict[str, Any]:
    import jax

    def step(logits: Any, targets: Any) -> tuple[Any, Any]:
        loss, gradient = loss_and_gradient(logits, targets)
        return (gradient if carried == "gradient" else logits - RATE * gradient), loss

    logits, losses = jax.lax.scan(step, logits, targets)
    return {"losses": losses, "logits": logits}


def expect_rules(carried: str, mode: Mode) -> tuple[str, ...]:
    """Returns the rules that speak; LD016 compares the program with the reference."""
    if mode is Mode.ALIASED:
        return ()
    return ("LD006", "LD009") if carried == "gradient" else ("LD006", "LD016")


CASES = tuple(
    Case(
        name="loop_carry",
        function=partial(compute, carried, mode),
        args=ARGS,
        params=(carried, mode),
        expected="fresh",
        expected_rules=expect_rules(carried, mode),
        reference=partial(compute_reference, carried),
        about="the kernel overwrites what a scan carries",
    )
    for carried, mode in itertools.product(("gradient", "descent"), (Mode.HIDDEN, Mode.ALIASED))
)
