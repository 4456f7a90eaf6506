"""Language models, each a training step from tokens or hidden states to the gradients."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.fused import (
    BATCH,
    HEADS,
    HIDDEN,
    ROWS,
    TOKENS,
    VOCABULARY,
    WIDTH,
    Arguments,
    Fused,
    Model,
    attend,
    name_leaves,
)

_make = Arguments()


def gpt2(fused: Fused, weights: Any, ids: Any, targets: Any) -> dict[str, Any]:
    """Learned positions; the embedding is also the head."""

    def compute(weights: Any) -> Any:
        x = weights["embedding"][ids] + weights["positions"]
        for number in range(2):
            own = {name: stacked[number] for name, stacked in weights["layers"].items()}
            x += attend(fused, fused.layer_norm(x, own["scale_1"], own["shift_1"]), own)
            x += jax.nn.gelu(fused.layer_norm(x, own["scale_2"], own["shift_2"]) @ own["up"]) @ own["down"]
        logits = fused.layer_norm(x, weights["scale"], weights["shift"]) @ weights["embedding"].T
        return fused.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def scanned_llama(fused: Fused, weights: Any, ids: Any, targets: Any) -> dict[str, Any]:
    """Layers in a scan, recomputed in the backward pass, and a fused head."""

    def compute(weights: Any) -> Any:
        @jax.checkpoint
        def layer(x: Any, own: Any) -> Any:
            x += attend(fused, fused.rms_norm(x, own["scale_1"]), own, is_turned=True)
            hidden = fused.rms_norm(x, own["scale_2"])
            return x + fused.swiglu(hidden @ own["gate"], hidden @ own["up"]) @ own["down"], None

        x, _ = lax.scan(layer, weights["embedding"][ids], weights["layers"])
        x = fused.rms_norm(x, weights["scale"])
        return fused.fused_linear_cross_entropy(x.reshape(-1, WIDTH), weights["head"], targets.reshape(-1))

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def normed_queries(fused: Fused, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """Queries and keys are normed before they are rotated; a kernel's first result is added to `x`, an argument."""

    def compute(weights: Any) -> Any:
        mixed = attend(fused, fused.rms_norm(x, weights["scale_1"]), weights, is_turned=True, is_normed=True)
        y = x + fused.rms_norm(mixed, weights["scale_2"])
        logits = (y @ weights["head"]).reshape(-1, VOCABULARY)
        return fused.cross_entropy(logits, targets.reshape(-1), logit_soft_cap=30.0)

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def parallel_blocks(fused: Fused, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """Attention and MLP in parallel, after one norm."""

    def compute(weights: Any) -> Any:
        hidden = fused.layer_norm(x, weights["scale_1"], weights["shift_1"])
        mlp = fused.swiglu(hidden @ weights["gate"], hidden @ weights["up"]) @ weights["down"]
        y = x + attend(fused, hidden, weights, is_turned=True) + mlp
        return fused.cross_entropy((y @ weights["head"]).reshape(-1, VOCABULARY), targets.reshape(-1))

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def experts(fused: Fused, weights: Any, x: Any, targets: Any) -> dict[str, Any]:
    """A mixture of four experts, two for each token; one penalty reads the router, one an operand of the gated unit."""

    def compute(weights: Any) -> Any:
        router = x @ weights["router"]
        best, which = lax.top_k(jax.nn.softmax(router, -1), 2)
        gates = jnp.sum(jax.nn.one_hot(which, 4) * best[..., None], -2)
        gate, up = (jnp.einsum("td,edf->tef", x, weights[name]) for name in ("gate", "up"))
        mixed = jnp.einsum("tef,efd,te->td", fused.geglu(gate, up), weights["down"], gates)
        penalty = 0.1 * jnp.mean(jax.nn.logsumexp(router, -1) ** 2) + 0.01 * jnp.mean(gate**2)
        return fused.cross_entropy((x + mixed) @ weights["head"], targets) + penalty

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


def two_streams(fused: Fused, weights: Any, x: Any, y: Any, targets: Any) -> dict[str, Any]:
    """In each layer, each stream adds to the other."""

    def compute(weights: Any) -> Any:
        one, other = x, y
        for number in range(2):
            own = {name: stacked[number] for name, stacked in weights["layers"].items()}
            one += attend(fused, fused.layer_norm(other, own["scale_1"], own["shift_1"]), own)
            hidden = fused.layer_norm(one, own["scale_2"], own["shift_2"])
            other += fused.geglu(hidden @ own["gate"], one @ own["up"]) @ own["down"]
        return fused.cross_entropy(((one + other) @ weights["head"]).reshape(-1, VOCABULARY), targets.reshape(-1))

    loss, gradients = jax.value_and_grad(compute)(weights)
    return {"loss": loss, **name_leaves(gradients)}


_HEAD = {"head": _make.matrix(WIDTH, VOCABULARY)}
_LAYERS = {"layers": _make.layer(2)}
_EMBEDDED = {"embedding": _make.normal(VOCABULARY, WIDTH), "scale": _make.normal(WIDTH)}
_IDS = _make.integers(BATCH, TOKENS)
_TARGETS = _make.integers(BATCH, TOKENS)
_HIDDEN = _make.normal(BATCH, TOKENS, WIDTH)
_NORMED = {name: _make.normal(WIDTH // HEADS) for name in ("q_norm", "k_norm")}
_EXPERTS = {
    "router": _make.matrix(WIDTH, 4),
    "gate": _make.matrix(4, WIDTH, HIDDEN),
    "up": _make.matrix(4, WIDTH, HIDDEN),
    "down": _make.matrix(4, HIDDEN, WIDTH),
}
MODELS: Mapping[Model, tuple[Any, ...]] = {
    gpt2: (
        {
            **_EMBEDDED,
            **_LAYERS,
            "positions": _make.normal(TOKENS, WIDTH, scale=0.1),
            "shift": _make.normal(WIDTH),
        },
        _IDS,
        _TARGETS,
    ),
    scanned_llama: ({**_EMBEDDED, **_LAYERS, **_HEAD}, _IDS, _TARGETS),
    normed_queries: ({**_make.layer(), **_NORMED, **_HEAD}, _HIDDEN, _TARGETS),
    parallel_blocks: ({**_make.layer(), **_HEAD}, _HIDDEN, _TARGETS),
    experts: ({**_EXPERTS, **_HEAD}, _make.normal(ROWS, WIDTH), _make.integers(ROWS)),
    two_streams: ({**_LAYERS, **_HEAD}, _HIDDEN, _make.normal(BATCH, TOKENS, WIDTH), _TARGETS),
}
"""Model to its weights and data."""
