"""Losses that read the logits, or other operands of a kernel, more than once."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kernels.cross_entropy.reference import cross_entropy
from tests.models.fused import HIDDEN, ROWS, TOKENS, VOCABULARY, WIDTH, Arguments, Fused, Model, name_leaves

_make = Arguments()


def contrastive(fused: Fused, weights: Any, texts: Any, images: Any) -> dict[str, Any]:
    """Rows and columns of one matrix of logits, and how often the best one is right."""

    def compute(weights: Any) -> Any:
        one, other = texts @ weights["text"], images @ weights["image"]
        one, other = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (one, other))
        logits = jnp.exp(weights["temperature"]) * one @ other.T
        labels = jnp.arange(ROWS)
        right = jnp.mean((jnp.argmax(logits, -1) == labels).astype(jnp.float32))
        return (fused.cross_entropy(logits, labels) + fused.cross_entropy(logits.T, labels)) / 2, right

    (loss, right), gradients = jax.value_and_grad(compute, has_aux=True)(weights)
    return {"loss": loss, "right": right, **name_leaves(gradients)}


def preference(fused: Fused, head: Any, frozen: Any, x: Any, y: Any, chosen: Any, rejected: Any) -> dict[str, Any]:
    """Four losses for each token, two by a frozen head (DPO)."""

    def score(head: Any, x: Any, targets: Any) -> Any:
        return -fused.cross_entropy(x @ head, targets, reduction="none").reshape(-1, TOKENS).sum(-1)

    def compute(head: Any) -> Any:
        margin = score(head, x, chosen) - score(head, y, rejected)
        base = lax.stop_gradient(score(frozen, x, chosen) - score(frozen, y, rejected))
        return -jnp.mean(jax.nn.log_sigmoid(0.1 * (margin - base))), margin

    (loss, margin), gradient = jax.value_and_grad(compute, has_aux=True)(head)
    return {"loss": loss, "margin": margin, "head": gradient}


def distillation(fused: Fused, weights: Any, teacher: Any, x: Any, targets: Any) -> dict[str, Any]:
    """Two kernels overwrite the student's logits in sequence."""

    def compute(weights: Any) -> Any:
        logits = jax.nn.relu(x @ weights["w"]) @ weights["head"]
        return fused.jsd(logits, x @ teacher) + 0.5 * fused.cross_entropy(logits, targets)

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def soft_and_hard(fused: Fused, weights: Any, teacher: Any, x: Any, targets: Any) -> dict[str, Any]:
    """A kernel overwrites the logits; plain jnp and a metric read them."""

    def compute(weights: Any) -> Any:
        logits = jax.nn.relu(x @ weights["w"]) @ weights["head"]
        soft = fused.kl_div(logits, x @ teacher, temperature=2.0)
        hard: Any = cross_entropy(logits, targets)
        return soft + 0.5 * hard, jnp.argmax(logits, -1)

    (loss, best), gradients = jax.value_and_grad(compute, has_aux=True)(weights)
    return {"loss": loss, "best": best, **name_leaves(gradients)}


def entropy_bonus(fused: Fused, head: Any, x: Any, targets: Any, counts: Any) -> dict[str, Any]:
    """A small term reads the old logits; the picked entries are read after the kernel."""

    def compute(head: Any) -> Any:
        logits = x @ head
        centred = logits - lax.stop_gradient(logits.max(-1, keepdims=True))
        entropy = -jnp.sum(jax.nn.softmax(centred) * jax.nn.log_softmax(centred), -1).mean()
        loss = fused.cross_entropy(logits, targets, where=counts > 0.5)
        return loss - 0.1 * entropy, jnp.take_along_axis(logits, targets[:, None], 1)[:, 0]

    (loss, picked), gradient = jax.value_and_grad(compute, has_aux=True)(head)
    return {"loss": loss, "picked": picked, "head": gradient}


def two_heads(fused: Fused, weights: Any, x: Any, first: Any, second: Any) -> dict[str, Any]:
    """Two tokens at a time, from one trunk."""

    def compute(weights: Any) -> Any:
        hidden = fused.rms_norm(x @ weights["w"], weights["scale"])
        one, other = hidden @ weights["head"], hidden @ weights["next"]
        return fused.cross_entropy(one, first) + 0.3 * fused.cross_entropy(other, second), jax.nn.logsumexp(one, -1)

    (loss, sums), gradients = jax.value_and_grad(compute, has_aux=True)(weights)
    return {"loss": loss, "sums": sums, **name_leaves(gradients)}


def adapters(fused: Fused, frozen: Any, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """Low-rank adapters beside a frozen head, and the spread of the logits."""

    def compute(weights: Any) -> Any:
        logits = x @ frozen + x @ weights["down"] @ weights["up"] * 2.0
        return fused.cross_entropy(logits, targets), jnp.std(logits)

    (loss, spread), gradients = jax.value_and_grad(compute, has_aux=True)(weights)
    return {"loss": loss, "spread": spread, **name_leaves(gradients)}


def triplets(fused: Fused, weights: Any, x: Any, near: Any, far: Any) -> dict[str, Any]:
    """One network three times."""

    def embed(weights: Any, x: Any) -> Any:
        hidden = fused.geglu(x @ weights["gate"], x @ weights["up"]) @ weights["out"]
        y = x + fused.rms_norm(hidden, weights["scale"])
        return y / jnp.linalg.norm(y, axis=-1, keepdims=True)

    def compute(weights: Any) -> Any:
        one, same, other = (embed(weights, each) for each in (x, near, far))
        return jnp.mean(jax.nn.relu(0.2 + jnp.sum((one - same) ** 2, -1) - jnp.sum((one - other) ** 2, -1)))

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


_X, _Y, _Z = (_make.normal(ROWS, WIDTH) for _ in range(3))
_TARGETS, _OTHERS = (_make.integers(ROWS) for _ in range(2))
_HEAD, _NEXT = (_make.matrix(WIDTH, VOCABULARY) for _ in range(2))
_TRUNK = {"w": _make.matrix(WIDTH, WIDTH), "head": _HEAD}
MODELS: Mapping[Model, tuple[Any, ...]] = {
    contrastive: (
        {"text": _make.matrix(WIDTH, 16), "image": _make.matrix(WIDTH, 16), "temperature": _make.normal(scale=0.5)},
        _X,
        _Y,
    ),
    preference: (_HEAD, _NEXT, _X, _Y, _TARGETS, _OTHERS),
    distillation: (_TRUNK, _NEXT, _X, _TARGETS),
    soft_and_hard: (_TRUNK, _NEXT, _X, _TARGETS),
    entropy_bonus: (_HEAD, _X, _TARGETS, _make.uniform(ROWS)),
    two_heads: ({**_TRUNK, "next": _NEXT, "scale": _make.normal(WIDTH)}, _X, _TARGETS, _OTHERS),
    adapters: (_HEAD, {"down": _make.matrix(WIDTH, 4), "up": _make.matrix(4, VOCABULARY)}, _X, _TARGETS),
    triplets: (
        {
            "gate": _make.matrix(WIDTH, HIDDEN),
            "up": _make.matrix(WIDTH, HIDDEN),
            "out": _make.matrix(HIDDEN, WIDTH),
            "scale": _make.normal(WIDTH),
        },
        _X,
        _Y,
        _Z,
    ),
}
"""Model to its weights and data."""
