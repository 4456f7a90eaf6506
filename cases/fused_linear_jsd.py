"""Linear layers and the divergence between them, a chunk of tokens at a time; the kernel overwrites a chunk's logits.

Two chunks, so that the weight's gradient is carried from one to the next.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.fused_linear_jsd.shapes import SMALL
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

ARGS = (
    Arg(shape=(SMALL.tokens, SMALL.hidden), draw=Draw(seed=0)),
    Arg(shape=(SMALL.hidden, SMALL.vocabulary), draw=Draw(seed=1, scale=SMALL.hidden**-0.5)),
    Arg(shape=(SMALL.tokens, SMALL.teacher_hidden), draw=Draw(seed=2)),
    Arg(shape=(SMALL.teacher_hidden, SMALL.vocabulary), draw=Draw(seed=3, scale=SMALL.teacher_hidden**-0.5)),
)
LOGITS_BYTES = SMALL.tokens // 2 * SMALL.vocabulary * 8

EXPECTED = {Mode.HIDDEN: {"input": "stale|latent", "weight": "latent"}}
"""Stale for an H100, an H200 and a B200, latent for an A100."""
EXPECTED_RULES = {Mode.HIDDEN: ("LD001?", "LD003", "LD006"), Mode.TRIVIAL: ("LD006",), Mode.BARRIER: ("LD006",)}


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss and two gradients, the divergence by the kernel in `mode`."""
    from kernels.fused_linear_jsd.api import fused_linear_jsd

    return _compute(partial(fused_linear_jsd, logits_bytes=LOGITS_BYTES, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.fused_linear_jsd.reference import fused_linear_jsd

    return _compute(fused_linear_jsd, *arrays)


def _compute(fused_linear_jsd: Callable[..., Any], *arrays: Any) -> dict[str, Any]:
    import jax

    loss, gradients = jax.value_and_grad(fused_linear_jsd, argnums=(0, 1))(*arrays)
    return {"loss": loss, "input": gradients[0], "weight": gradients[1]}


CASES = tuple(
    Case(
        name="fused_linear_jsd",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected=EXPECTED.get(mode, "fresh"),
        expected_rules=EXPECTED_RULES.get(mode, ()),
        reference=compute_reference,
        about="distillation without all of the logits",
    )
    for mode in Mode
)
