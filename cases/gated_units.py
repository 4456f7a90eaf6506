"""A gated unit, SwiGLU or GeGLU, in an MLP: its backward pass overwrites gate and value, saved by the forward pass, with
their gradients.

XLA may join the two products that make gate and value, and then they are slices of one array.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from kernels.modes import Mode
from kernels.swiglu.shapes import SMALL
from ligerdiag.model.case import Arg, Case, Draw

UNITS = ("swiglu", "geglu")
EMBEDDING = 16
ARGS = (
    Arg(shape=(SMALL.tokens, EMBEDDING), draw=Draw(seed=0)),
    Arg(shape=(EMBEDDING, SMALL.hidden), draw=Draw(seed=1, scale=EMBEDDING**-0.5)),
    Arg(shape=(EMBEDDING, SMALL.hidden), draw=Draw(seed=2, scale=EMBEDDING**-0.5)),
    Arg(shape=(SMALL.hidden, EMBEDDING), draw=Draw(seed=3, scale=SMALL.hidden**-0.5)),
    Arg(shape=(SMALL.tokens, EMBEDDING), draw=Draw(seed=4)),
)

EXPECTED = {
    Mode.HIDDEN: {"gate": "stale", "up": "stale", "input": "stale"},
    Mode.TRIVIAL: {"down": "clobbered", "loss": "clobbered"},
    Mode.BARRIER: {"gate": "stale", "up": "stale", "input": "stale"},
}
EXPECTED_RULES = {
    Mode.HIDDEN: ("LD002", "LD006", "LD007"),
    Mode.TRIVIAL: ("LD004", "LD006"),
    Mode.BARRIER: ("LD002", "LD006", "LD007"),
}
"""LD007: nothing uses the kernel's own output, and JAX drops the call, even behind a barrier. With `trivial` it is kept,
and comes before the forward pass's kernel, which reads the same two arrays: the loss is linear in its result, so nothing in
the backward pass waits for it."""


def compute(unit: str, mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss and the gradients of all but the last array, the gated unit by the kernel in `mode`."""
    return _compute(partial(_find(unit, "api"), mode=mode), *arrays)


def compute_reference(unit: str, *arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return _compute(_find(unit, "reference"), *arrays)


def _find(unit: str, module: str) -> Callable[..., Any]:
    return getattr(import_module(f"kernels.{unit}.{module}"), unit)


def _compute(gated_unit: Callable[..., Any], *arrays: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    *differentiated, wanted = arrays

    def loss_of(input: Any, gate: Any, up: Any, down: Any) -> Any:
        return jnp.vdot(gated_unit(input @ gate, input @ up) @ down, wanted)

    loss, gradients = jax.value_and_grad(loss_of, argnums=(0, 1, 2, 3))(*differentiated)
    return {"loss": loss, **dict(zip(("input", "gate", "up", "down"), gradients, strict=True))}


CASES = tuple(
    Case(
        name=unit,
        function=partial(compute, unit, mode),
        args=ARGS,
        params=(mode,),
        expected=EXPECTED.get(mode, "fresh"),
        expected_rules=EXPECTED_RULES.get(mode, ()),
        reference=partial(compute_reference, unit),
        about="the backward pass overwrites two operands",
    )
    for unit in UNITS
    for mode in Mode
)
