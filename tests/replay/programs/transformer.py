"""A small decoder-only transformer in f32: loss, gradients and one step of Adam, in four forms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ligerdiag.model.case import Arg, Draw

LAYERS, WIDTH, HEADS, VOCABULARY = 3, 16, 2, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    scan: bool = False
    """One loop over the layers, their parameters stacked."""
    remat: bool = False
    tied: bool = True
    """The embedding is also the output projection."""


CONFIGURATIONS = {
    "unrolled": Configuration(),
    "remat": Configuration(remat=True),
    "scan": Configuration(scan=True),
    "scan_remat_untied": Configuration(scan=True, remat=True, tied=False),
}


def _draw(*shape: int, seed: int) -> Arg:
    return Arg(shape=shape, draw=Draw(seed=seed, scale=0.3))


PARAMETERS = (
    {
        "embedding": _draw(VOCABULARY, WIDTH, seed=1),
        "out": _draw(WIDTH, VOCABULARY, seed=2),
        "qkv": _draw(LAYERS, WIDTH, 3 * WIDTH, seed=3),
        "project": _draw(LAYERS, WIDTH, WIDTH, seed=4),
        "up": _draw(LAYERS, WIDTH, 4 * WIDTH, seed=5),
        "down": _draw(LAYERS, 4 * WIDTH, WIDTH, seed=6),
    },
)


def _normalize(x: Any) -> Any:
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def _layer(x: Any, layer: Any) -> Any:
    batch, length, width = x.shape
    qkv = (_normalize(x) @ layer["qkv"]).reshape(batch, length, 3, HEADS, width // HEADS)
    q, k, v = (qkv[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
    scores = q @ k.transpose(0, 1, 3, 2) / (width // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + mixed @ layer["project"]
    return x + jax.nn.gelu(_normalize(x) @ layer["up"]) @ layer["down"]


def make_train_step(configuration: Configuration) -> Callable[..., Any]:
    """Returns parameters and i32[batch, length] to the loss and the next parameters."""
    layer = jax.checkpoint(_layer) if configuration.remat else _layer

    def loss(parameters: Any, tokens: Any) -> Any:
        layers = {name: parameters[name] for name in ("qkv", "project", "up", "down")}
        x = parameters["embedding"][tokens]
        if configuration.scan:
            x, _ = jax.lax.scan(lambda x, one: (layer(x, one), None), x, layers)
        else:
            for number in range(LAYERS):
                x = layer(x, {name: stacked[number] for name, stacked in layers.items()})
        out = parameters["embedding"].T if configuration.tied else parameters["out"]
        logits = (_normalize(x) @ out)[:, :-1]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    def step(parameters: Any, tokens: Any) -> Any:
        optimizer = optax.adam(1e-2)
        value, gradients = jax.value_and_grad(loss)(parameters, tokens)
        updates, _ = optimizer.update(gradients, optimizer.init(parameters), parameters)
        return {"loss": value, "gradients": gradients, "parameters": optax.apply_updates(parameters, updates)}

    return step
