"""A divergence of a student from a teacher, KL or Jensen-Shannon, whose forward pass overwrites the student's logits with
their gradient.

The student's logits are a product, and its gradients two more; the teacher's logits are only read.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from kernels.kl_div.shapes import SMALL
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

DIVERGENCES = ("kl_div", "jsd")
EMBEDDING = 16
TEMPERATURE = 2.0
ARGS = (
    Arg(shape=(SMALL.tokens, EMBEDDING), draw=Draw(seed=0)),
    Arg(shape=(EMBEDDING, SMALL.vocabulary), draw=Draw(seed=1, scale=EMBEDDING**-0.5)),
    Arg(shape=tuple(SMALL), draw=Draw(seed=2)),
)

EXPECTED = {Mode.HIDDEN: {"input": "latent", "weight": "latent"}}
EXPECTED_RULES = {Mode.HIDDEN: ("LD003", "LD006"), Mode.TRIVIAL: ("LD006",), Mode.BARRIER: ("LD006",)}


def compute(divergence: str, mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss and two gradients, the divergence by the kernel in `mode`."""
    return _compute(partial(_find(divergence, "api"), mode=mode), *arrays)


def compute_reference(divergence: str, *arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return _compute(_find(divergence, "reference"), *arrays)


def _find(divergence: str, module: str) -> Callable[..., Any]:
    return getattr(import_module(f"kernels.{divergence}.{module}"), divergence)


def _compute(diverge: Callable[..., Any], input: Any, weight: Any, teacher_logits: Any) -> dict[str, Any]:
    import jax

    def loss_of(input: Any, weight: Any) -> Any:
        return diverge(input @ weight, teacher_logits, temperature=TEMPERATURE)

    loss, gradients = jax.value_and_grad(loss_of, argnums=(0, 1))(input, weight)
    return {"loss": loss, "input": gradients[0], "weight": gradients[1]}


CASES = tuple(
    Case(
        name=divergence,
        function=partial(compute, divergence, mode),
        args=ARGS,
        params=(mode,),
        expected=EXPECTED.get(mode, "fresh"),
        expected_rules=EXPECTED_RULES.get(mode, ()),
        reference=partial(compute_reference, divergence),
        about="distillation: the forward pass leaves the gradient where the logits were",
    )
    for divergence in DIVERGENCES
    for mode in Mode
)
