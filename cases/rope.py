"""Rotary position embedding that overwrites queries and keys, and in the backward pass their cotangents.

The scores of an attention are computed from both, and the sum of the queries from before: a reader of the original.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.modes import Mode
from kernels.rope.shapes import SMALL
from ligerdiag.model.case import Arg, Case, Draw

EMBEDDING = 16
ARGS = (
    Arg(shape=(SMALL.tokens, EMBEDDING), draw=Draw(seed=0)),
    Arg(shape=(EMBEDDING, SMALL.heads * SMALL.size), draw=Draw(seed=1)),
    Arg(shape=(EMBEDDING, SMALL.key_heads * SMALL.size), draw=Draw(seed=2)),
    Arg(shape=(SMALL.heads, SMALL.tokens, SMALL.tokens), draw=Draw(seed=3)),
)

STALE = {"loss": "stale", "query_weight": "stale", "key_weight": "stale"}
EXPECTED = {Mode.HIDDEN: STALE, Mode.TRIVIAL: STALE, Mode.BARRIER: STALE}
EXPECTED_RULES = {
    Mode.HIDDEN: ("LD002", "LD006", "LD007"),
    Mode.TRIVIAL: ("LD002", "LD006"),
    Mode.BARRIER: ("LD002", "LD006", "LD007"),
}
"""LD007: nothing uses the kernel's own output, and JAX drops the call, even behind a barrier. With `trivial` it is kept,
but XLA joins the products that make queries and keys: the kernel overwrites slices, and the joined array is read."""


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the loss, the sum of the queries and two gradients, the embedding by the kernel in `mode`."""
    from kernels.rope.api import rope

    return _compute(partial(rope, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.rope.reference import rope

    return _compute(rope, *arrays)


def _compute(rope: Callable[..., Any], input: Any, query_weight: Any, key_weight: Any, wanted: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    from kernels.rope.reference import compute_angles

    angles = compute_angles(SMALL.tokens, SMALL.size)

    def loss_of(query_weight: Any, key_weight: Any) -> Any:
        queries = (input @ query_weight).reshape(SMALL.tokens, SMALL.heads, SMALL.size)
        keys = (input @ key_weight).reshape(SMALL.tokens, SMALL.key_heads, SMALL.size)
        total = queries.sum(axis=(0, 1))
        turned, keys = rope(queries, keys, *angles)
        keys = jnp.repeat(keys, SMALL.heads // SMALL.key_heads, axis=1)
        return jnp.vdot(jnp.einsum("thd,shd->hts", turned, keys), wanted), total

    (loss, total), gradients = jax.value_and_grad(loss_of, argnums=(0, 1), has_aux=True)(query_weight, key_weight)
    return {"loss": loss, "total": total, "query_weight": gradients[0], "key_weight": gradients[1]}


CASES = tuple(
    Case(
        name="rope",
        function=partial(compute, mode),
        args=ARGS,
        params=(mode,),
        expected=EXPECTED.get(mode, "fresh"),
        expected_rules=EXPECTED_RULES.get(mode, ()),
        reference=compute_reference,
        about="forward and backward pass overwrite two operands each",
    )
    for mode in Mode
)
