"""Jensen-Shannon divergence for distillation, whose forward pass overwrites the student's logits with their gradient.

The student's logits are a product, and its gradients two more; the teacher's logits are only read.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.jsd.shapes import SMALL
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

EMBEDDING = 16
TEMPERATURE = 2.0
ARGS = (
    Arg(shape=(SMALL.tokens, EMBEDDING), draw=Draw(seed=0)),
    Arg(shape=(EMBEDDING, SMALL.vocabulary), draw=Draw(seed=1, scale=EMBEDDING**-0.5)),
    Arg(shape=tuple(SMALL), draw=Draw(seed=2)),
)

EXPECTED = {Mode.HIDDEN: {"input": "latent", "weight": "latent"}}
EXPECTED_RULES = {Mode.HIDDEN: ("LD003", "LD006"), Mode.TRIVIAL: ("LD006",), Mode.BARRIER: ("LD006",)}


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss and two gradients, the divergence by the kernel in `mode`."""
    from kernels.jsd.api import jsd

    return _compute(partial(jsd, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.jsd.reference import jsd

    return _compute(jsd, *arrays)


def _compute(jsd: Callable[..., Any], input: Any, weight: Any, teacher_logits: Any) -> dict[str, Any]:
    import jax

    def loss_of(input: Any, weight: Any) -> Any:
        return jsd(input @ weight, teacher_logits, temperature=TEMPERATURE)

    loss, gradients = jax.value_and_grad(loss_of, argnums=(0, 1))(input, weight)
    return {"loss": loss, "input": gradients[0], "weight": gradients[1]}


CASES = tuple(
    Case(
        name="jsd",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected=EXPECTED.get(mode, "fresh"),
        expected_rules=EXPECTED_RULES.get(mode, ()),
        reference=compute_reference,
        about="distillation: the forward pass leaves the gradient where the logits were",
    )
    for mode in Mode
)
