"""A value that autodiff saved for the backward pass, overwritten by the loss kernel in between: an activation, then the
cross entropy of its result (https://github.com/linkedin/Liger-Kernel/issues/272, where the gradient came out too small
by two orders of magnitude, and PyTorch's own check for such writes did not notice).

The activations: `softmax` is the issue's own, `exp` the smaller one of its explanation, `tanh` another. The objectives:
the cotangent of the `loss` is 1, so that the backward pass needs only the array that the kernel overwrote; that of the
`perplexity`, exp(loss), depends on the loss, and the backward pass has to come after the kernel.

JAX's softmax is not PyTorch's: it saves the exponentials and their sum for the backward pass, and no kernel overwrites
these. XLA computes the softmax anew from them where the cotangent is 1 (a quotient of a quotient becomes one quotient),
and so misses the gradient that has replaced it. `exp` and `tanh` save their result.

`out_of_place` is the remedy of https://github.com/linkedin/Liger-Kernel/pull/1251: a gradient with memory of its own.
`aliased` tells XLA what the kernel does, and XLA makes the copy.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

ARGS = (
    Arg(shape=(WIDE.context, WIDE.vocabulary), draw=Draw(seed=0)),
    Arg(shape=(WIDE.context,), dtype="int32", draw=Draw(kind="randint", seed=1, high=WIDE.vocabulary)),
)


EXPECTED = {
    ("softmax", "loss"): {"logits": "stale"},
    ("softmax", "perplexity"): "fresh",
    ("exp", "loss"): {"logits": "stale"},
    ("exp", "perplexity"): {"logits": "clobbered"},
    ("tanh", "loss"): {"logits": "stale"},
    ("tanh", "perplexity"): {"logits": "clobbered"},
}
"""Of `hidden` mode, by activation and objective."""


def compute(activation: str, objective: str, mode: Mode, logits: Any, targets: Any) -> dict[str, Any]:
    """Returns the objective and its gradient, the cross entropy by the kernel in `mode`."""
    from kernels.cross_entropy.api import cross_entropy

    return _compute(activation, objective, partial(cross_entropy, mode=mode), logits, targets)


def compute_reference(activation: str, objective: str, logits: Any, targets: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.cross_entropy.reference import cross_entropy

    return _compute(activation, objective, cross_entropy, logits, targets)


def _compute(
    activation: str, objective: str, cross_entropy: Callable[..., Any], logits: Any, targets: Any
) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    activate = {"softmax": jax.nn.softmax, "exp": jnp.exp, "tanh": jnp.tanh}[activation]

    def objective_of(logits: Any) -> Any:
        loss = cross_entropy(activate(logits), targets)
        return jnp.exp(loss) if objective == "perplexity" else loss

    value, gradient = jax.value_and_grad(objective_of)(logits)
    return {objective: value, "logits": gradient}


CASES = tuple(
    Case(
        name="saved_residual",
        function=partial(compute, activation, objective, mode),
        args=ARGS,
        params=(activation, objective, mode),
        expected=EXPECTED[activation, objective] if mode is Mode.HIDDEN else "fresh",
        reference=partial(compute_reference, activation, objective),
        about="Liger-Kernel issue 272: the kernel overwrites what the backward pass reads",
    )
    for activation, objective, mode in itertools.product(
        ("softmax", "exp", "tanh"), ("loss", "perplexity"), (Mode.HIDDEN, Mode.ALIASED, Mode.OUT_OF_PLACE)
    )
)
