"""A train step of a toy transformer with LAYERS layers and two wrong kernel calls."""

import os
import sys

import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from toy_kernels import loss, norm

LAYERS, WIDTH, VOCABULARY, TOKENS = 8, 32, 64, 16


def block(p, x):
    h = norm(x, p["before"])
    q, k, v = jnp.split(h @ p["qkv"], 3, axis=-1)
    x = x + jax.nn.softmax(q @ k.T / WIDTH**0.5) @ v @ p["out"]
    return x + jax.nn.gelu(norm(x, p["between"]) @ p["up"]) @ p["down"]


def objective(params, tokens, labels):
    x = params["embed"][tokens]
    for p in params["layers"]:
        x = block(p, x)
    return loss(norm(x, params["after"]) @ params["head"], labels)


def train_step(params, momentum, tokens, labels):
    value, gradients = jax.value_and_grad(objective)(params, tokens, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return {"params": jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), "momentum": momentum, "loss": value}


def _args():
    layer = {
        "before": Arg(shape=(WIDTH,)),
        "between": Arg(shape=(WIDTH,)),
        "qkv": Arg(shape=(WIDTH, 3 * WIDTH)),
        "out": Arg(shape=(WIDTH, WIDTH)),
        "up": Arg(shape=(WIDTH, 2 * WIDTH)),
        "down": Arg(shape=(2 * WIDTH, WIDTH)),
    }
    params = {
        "embed": Arg(shape=(VOCABULARY, WIDTH)),
        "after": Arg(shape=(WIDTH,)),
        "head": Arg(shape=(WIDTH, VOCABULARY)),
        "layers": [layer] * LAYERS,
    }
    ids = Arg(shape=(TOKENS,), dtype="int32")
    return params, params, ids, ids


CASE = Case(name="two_mistakes", function=train_step, args=_args())
