"""Training steps in loops over microbatches, time and iterations; and a decoding step."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kernels.rope.reference import compute_angles
from tests.models.fused import BATCH, HEADS, HIDDEN, TOKENS, VOCABULARY, WIDTH, Arguments, Fused, Model, name_leaves

_make = Arguments()


def microbatches(fused: Fused, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """Gradients are summed in a scan, clipped by their norm, and applied."""

    def compute(weights: Any, x: Any, targets: Any) -> Any:
        return fused.cross_entropy(fused.rms_norm(x @ weights["w"], weights["scale"]) @ weights["head"], targets)

    def add(total: Any, batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(compute)(weights, *batch)
        return jax.tree.map(jnp.add, total, gradients), loss

    total, losses = lax.scan(add, jax.tree.map(jnp.zeros_like, weights), (x, targets))
    norm = jnp.sqrt(sum(jnp.vdot(one, one) for one in jax.tree.leaves(total)))
    updated = jax.tree.map(lambda w, g: w - 0.1 * g * jnp.minimum(1.0, 1.0 / norm), weights, total)
    return {"loss": losses.mean(), "norm": norm, **name_leaves(updated, "new")}


def iterations(fused: Fused, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """Three steps of gradient descent in a loop."""

    def compute(weights: Any, x: Any, targets: Any) -> Any:
        hidden = fused.layer_norm(x @ weights["w"], weights["scale"], weights["shift"])
        return fused.cross_entropy(hidden @ weights["head"], targets)

    def step(number: Any, carried: Any) -> Any:
        weights, total = carried
        batch = [lax.dynamic_index_in_dim(one, number, 0, keepdims=False) for one in (x, targets)]
        loss, gradients = jax.value_and_grad(compute)(weights, *batch)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), total + loss

    weights, total = lax.fori_loop(0, 3, step, (weights, 0.0))
    return {"loss": total, **name_leaves(weights, "new")}


def recurrent(fused: Fused, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """A gated unit and a norm in a scan over time."""

    def compute(weights: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            both = jnp.concatenate([state, now], -1)
            state += 0.5 * fused.swiglu(both @ weights["gate"], both @ weights["up"]) @ weights["down"]
            return fused.rms_norm(state, weights["scale"]), state

        last, states = lax.scan(step, jnp.zeros_like(x[0]), x)
        return fused.cross_entropy(last @ weights["head"], targets) + 0.01 * jnp.mean(states**2)

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def unrolled(fused: Fused, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """Three microbatches in one program, each through a gated unit and a fused head."""

    def compute(weights: Any) -> Any:
        total = 0.0
        for number in range(3):
            hidden = fused.rms_norm(x[number], weights["scale"])
            mlp = fused.swiglu(hidden @ weights["gate"], hidden @ weights["up"]) @ weights["down"]
            total += fused.fused_linear_cross_entropy(x[number] + mlp, weights["head"], targets[number])
        return total / 3

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def decoding(fused: Fused, weights: Any, keys: Any, values: Any, x: Any, place: Any) -> dict[str, Any]:
    """One token: its key is written to the cache."""
    angles = (lax.dynamic_slice_in_dim(one, place, 1) for one in compute_angles(TOKENS, WIDTH // HEADS))
    hidden = fused.rms_norm(x, weights["scale_1"])
    query, key, value = (jnp.reshape(hidden @ weights[name], (BATCH, 1, HEADS, -1)) for name in "qkv")
    query, key = fused.rope(query, key, *angles)
    keys = lax.dynamic_update_slice(keys, key, (0, place, 0, 0))
    values = lax.dynamic_update_slice(values, value, (0, place, 0, 0))
    scores = jnp.where(jnp.arange(TOKENS) <= place, jnp.einsum("bqhd,bthd->bhqt", query, keys), -1e9)
    mixed = jnp.einsum("bhqt,bthd->bqhd", jax.nn.softmax(scores), values)
    return {"y": x + mixed.reshape(x.shape) @ weights["o"], "keys": keys, "values": values}


_GATED = {
    "gate": _make.matrix(WIDTH, HIDDEN),
    "up": _make.matrix(WIDTH, HIDDEN),
    "down": _make.matrix(HIDDEN, WIDTH),
    "scale": _make.normal(WIDTH),
    "head": _make.matrix(WIDTH, VOCABULARY),
}
_TRUNK = {
    "w": _make.matrix(WIDTH, WIDTH),
    "scale": _make.normal(WIDTH),
    "head": _make.matrix(WIDTH, VOCABULARY),
}
_CACHE = (_make.normal(BATCH, TOKENS, HEADS, WIDTH // HEADS), _make.normal(BATCH, TOKENS, HEADS, WIDTH // HEADS))
MODELS: Mapping[Model, tuple[Any, ...]] = {
    microbatches: (_TRUNK, _make.normal(4, 8, WIDTH), _make.integers(4, 8)),
    iterations: ({**_TRUNK, "shift": _make.normal(WIDTH)}, _make.normal(3, 8, WIDTH), _make.integers(3, 8)),
    recurrent: (
        {**_GATED, "gate": _make.matrix(2 * WIDTH, HIDDEN), "up": _make.matrix(2 * WIDTH, HIDDEN)},
        _make.normal(4, 8, WIDTH),
        _make.integers(8),
    ),
    unrolled: (_GATED, _make.normal(3, 8, WIDTH), _make.integers(3, 8)),
    decoding: (_make.layer(), *_CACHE, _make.normal(BATCH, 1, WIDTH), _make.integers(high=TOKENS)),
}
"""Model to its weights and data."""
