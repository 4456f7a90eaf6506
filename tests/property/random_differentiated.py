"""Random training steps that differentiate through a kernel that overwrites an operand behind XLA's back.

A recipe is drawn from a seed before anything is traced: the model (`Recipe.layers`, `before`), the form of the loss
(`differentiated_kernels.LOSSES`), other reads of the logits, and how gradients are taken (`STEPS`). Shapes are few and
small, so that an interpreter takes milliseconds and XLA:CPU compiles each operation once for many programs.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec

from ligerdiag.model.case import Arg, Case, Draw
from tests.property.differentiated_kernels import LOSSES, launch_rows, make_loss, squash

FEATURES = 16
SHAPES = ((4, 16), (2, 8), (8, 32))
"""Rows and columns of the logits."""
DEVICES = 2
MICROBATCHES = 2

STEPS = (
    "gradient", "gradient", "gradient", "sgd", "sgd", "adamw", "accumulate_scan", "accumulate_loop", "twice", "of_gradient",
    "shard_map", "map", "jit", "aux",
)  # fmt: skip
BEFORE = ("none", "none", "none", "exp", "tanh", "logistic", "rsqrt", "relu", "gelu", "softmax", "product", "square")
VIEWS = ("none", "none", "none", "reshape", "transpose", "bf16", "flipped")
READS = ("none", "none", "before", "after", "both", "product", "kernel")
LAYERS = ("linear", "linear", "bias", "two", "squash", "squash_residual", "scan", "remat", "remat_scan", "branch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One program; its strings are those of the tuples above."""

    rows: int
    columns: int
    layers: str
    before: str
    view: str
    loss: str
    second: str
    """Another loss on the same logits, or `none`."""
    reads: str
    step: str
    remat_loss: bool


type Parameters = dict[str, jax.Array]


def draw_recipe(seed: int) -> Recipe:
    """Draws the recipe of this seed."""
    pick = random.Random(seed)
    rows, columns = pick.choice(SHAPES)
    step = pick.choice(STEPS)
    loss = pick.choice(LOSSES)
    return Recipe(
        rows=rows,
        columns=columns,
        layers=pick.choice(LAYERS),
        before=pick.choice(BEFORE),
        view=pick.choice(VIEWS),
        loss=loss,
        second=pick.choice(LOSSES) if pick.random() < 0.2 else "none",
        reads=pick.choice(READS),
        step=step,
        remat_loss=pick.random() < 0.1,
    )


def make_case(seed: int) -> Case:
    """Returns the case `differentiated[seed]`."""
    recipe = draw_recipe(seed)
    batch = recipe.rows * (MICROBATCHES if recipe.step in ("accumulate_scan", "accumulate_loop", "map") else 1)
    sharded = recipe.step == "shard_map"
    scale = 0.4

    def arg(number: int, *shape: int, size: float = scale) -> Arg:
        return Arg(shape=shape, draw=Draw(seed=seed * 16 + number, scale=size))

    every = {
        "w1": arg(1, FEATURES, FEATURES),
        "b1": arg(2, FEATURES),
        "w2": arg(3, FEATURES, recipe.columns),
        "b2": arg(4, recipe.columns),
    }
    parameters = {name: every[name] for name in _list_parameters(recipe)}
    x = Arg(
        shape=(batch * (DEVICES if sharded else 1), FEATURES),
        draw=Draw(seed=seed * 16),
        partition=("devices",) if sharded else (),
    )
    return Case(
        name="differentiated",
        function=partial(run_recipe, recipe),
        args=(parameters, x),
        params=(seed,),
        mesh={"devices": DEVICES} if sharded else {},
        about=" ".join(str(word) for word in (recipe.layers, recipe.before, recipe.view, recipe.loss, recipe.step)),
    )


def run_recipe(recipe: Recipe, parameters: Parameters, x: jax.Array) -> dict[str, Any]:
    """Runs the program: maps parameters and a batch to named outputs."""
    return _TAKE[recipe.step](recipe, parameters, x)


def _list_parameters(recipe: Recipe) -> tuple[str, ...]:
    """Returns the names of the parameters that the program uses."""
    used = {"w2"} | ({"b2"} if recipe.layers == "bias" or recipe.reads == "product" else set())
    used |= {"w1"} if recipe.layers not in ("linear", "bias") else set()
    used |= {"b1"} if recipe.layers in ("two", "remat", "branch") else set()
    return tuple(sorted(used))


def compute_logits(recipe: Recipe, p: Parameters, x: jax.Array) -> jax.Array:
    """Returns f32[rows, columns]."""
    match recipe.layers:
        case "bias":
            return x @ p["w2"] + p["b2"]
        case "two":
            return jax.nn.gelu(x @ p["w1"] + p["b1"]) @ p["w2"]
        case "squash":
            return squash(x @ p["w1"]) @ p["w2"]
        case "squash_residual":
            h = x @ p["w1"]
            return (h + squash(h)) @ p["w2"]
        case "scan" | "remat_scan":
            body = jax.checkpoint(_layer) if recipe.layers == "remat_scan" else _layer
            weights = jnp.stack([p["w1"], p["w1"] * 0.5])
            h, means = jax.lax.scan(body, x, weights)
            return h @ p["w2"] + means.mean()
        case "remat":
            return jax.checkpoint(lambda x: squash(x @ p["w1"] + p["b1"]))(x) @ p["w2"]
        case "branch":
            h = jax.lax.cond(x.sum() > 0, lambda x: squash(x @ p["w1"]), lambda x: jnp.tanh(x) * p["b1"], x)
            return h @ p["w2"]
        case _:
            return x @ p["w2"]


def _layer(h: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
    h = h * 0.5 + squash(h @ w)
    return h, h.mean()


def prepare(recipe: Recipe, logits: jax.Array) -> jax.Array:
    """Returns the argument of the loss: another view of a result whose rule saves that result or its operand."""
    match recipe.before:
        case "exp":
            logits = jnp.exp(logits * 0.3)
        case "tanh":
            logits = jnp.tanh(logits)
        case "logistic":
            logits = jax.nn.sigmoid(logits)
        case "rsqrt":
            logits = jax.lax.rsqrt(logits * logits + 1)
        case "relu":
            logits = jax.nn.relu(logits)
        case "gelu":
            logits = jax.nn.gelu(logits)
        case "softmax":
            logits = jax.nn.softmax(logits)
        case "product":
            logits = logits * jnp.roll(logits, 1, 1)
        case "square":
            logits = logits * logits
        case _:
            pass
    match recipe.view:
        case "reshape":
            return logits.reshape(-1).reshape(logits.shape[0] * 2, -1)
        case "transpose":
            return logits.reshape(logits.shape[0], 2, -1).transpose(1, 0, 2).reshape(logits.shape[0] * 2, -1)
        case "bf16":
            return logits.astype(jnp.bfloat16)
        case "flipped":
            return logits[::-1]
        case _:
            return logits


def compute_loss(recipe: Recipe, p: Parameters, x: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the loss, and the other values that were read."""
    logits = prepare(recipe, compute_logits(recipe, p, x))
    aux: dict[str, jax.Array] = {}
    extra: Any = 0.0
    if recipe.reads in ("before", "both"):
        aux["before"] = logits.astype(jnp.float32).mean(1)
    loss = make_loss(recipe.loss)
    value = (jax.checkpoint(loss) if recipe.remat_loss else loss)(logits)
    if recipe.second != "none":
        value = value + 0.5 * make_loss(recipe.second)(logits)
    if recipe.reads in ("after", "both"):
        aux["after"] = logits.astype(jnp.float32).max(1)
    if recipe.reads == "product":
        extra = (logits.astype(jnp.float32) * (2 + p["b2"][0])).mean()
    if recipe.reads == "kernel":
        other = jax.lax.stop_gradient(logits) * 0.5
        aux["other"] = launch_rows(other)[0]
        aux["left"] = other.astype(jnp.float32).mean(0)
    return value + extra, aux


def _take_gradient(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    def loss(p: Parameters) -> tuple[jax.Array, dict[str, jax.Array]]:
        return compute_loss(recipe, p, x)

    (value, aux), gradient = jax.value_and_grad(loss, has_aux=True)(p)
    return {"loss": value, "gradient": gradient} | aux


def _take_sgd(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    found = _take_gradient(recipe, p, x)
    gradient = found.pop("gradient")
    return found | {"params": jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient)}


def _take_adamw(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    found = _take_gradient(recipe, p, x)
    gradient = found.pop("gradient")
    optimizer = optax.adamw(1e-2)
    # in the first step of adamw, a gradient and its multiple give the same update
    _, state = optimizer.update(jax.tree.map(jnp.cos, p), optimizer.init(p), p)
    updates, state = optimizer.update(gradient, state, p)
    norm = optax.global_norm(gradient)
    return found | {"params": optax.apply_updates(p, updates), "norm": norm, "moment": state[0].mu["w2"]}


def _split(x: jax.Array) -> jax.Array:
    return x.reshape(MICROBATCHES, -1, FEATURES)


def _take_scan(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    def body(total: Parameters, part: jax.Array) -> tuple[Parameters, Any]:
        found = _take_gradient(recipe, p, part)
        return jax.tree.map(jnp.add, total, found.pop("gradient")), found

    total, found = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, p), _split(x))
    return {"gradient": total} | found


def _take_loop(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    parts = [_take_gradient(recipe, p, part) for part in _split(x)]
    return jax.tree.map(lambda *values: sum(values[1:], values[0]), *parts)


def _take_map(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    found = jax.lax.map(lambda part: _take_gradient(recipe, p, part), _split(x))
    return found | {"gradient": jax.tree.map(lambda a: a.sum(0), found["gradient"])}


def _take_twice(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    value, pullback, aux = jax.vjp(lambda p: compute_loss(recipe, p, x), p, has_aux=True)
    one, two = pullback(jnp.ones_like(value)), pullback(jnp.full_like(value, 0.5))
    return {"loss": value, "one": one[0], "two": two[0]} | aux


def _take_of_gradient(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    def project(s: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, gradient = jax.value_and_grad(lambda p: compute_loss(recipe, p, x)[0])(p)
        return (gradient["w2"] * s).sum(), value  # JAX would drop a kernel whose loss nothing uses

    slope, value = jax.grad(project, has_aux=True)(p["w2"] * 1.0)
    return {"loss": value, "slope": slope}


def _take_shard_map(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    def local(p: Parameters, x: jax.Array) -> dict[str, Any]:
        return jax.tree.map(lambda a: jax.lax.psum(a, "devices"), _take_gradient(recipe, p, x))

    specs = (PartitionSpec(), PartitionSpec("devices"))
    return jax.shard_map(local, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)(p, x)


def _take_jit(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    inner = jax.jit(lambda p, x: jax.jit(compute_loss, static_argnums=0)(recipe, p, x))
    (value, aux), gradient = jax.value_and_grad(inner, has_aux=True)(p, x)
    return {"loss": value, "gradient": gradient} | aux


def _take_aux(recipe: Recipe, p: Parameters, x: jax.Array) -> dict[str, Any]:
    """The program reads the logits themselves after the loss, and differentiates that, too."""

    def loss(p: Parameters) -> tuple[jax.Array, jax.Array]:
        logits = prepare(recipe, compute_logits(recipe, p, x))
        value = make_loss(recipe.loss)(logits)
        return value + 0.1 * (logits.astype(jnp.float32) ** 2).mean(), logits.astype(jnp.float32)

    (value, logits), gradient = jax.value_and_grad(loss, has_aux=True)(p)
    return {"loss": value, "gradient": gradient, "logits": logits}


_TAKE: dict[str, Callable[[Recipe, Parameters, jax.Array], dict[str, Any]]] = {
    "gradient": _take_gradient,
    "sgd": _take_sgd,
    "adamw": _take_adamw,
    "accumulate_scan": _take_scan,
    "accumulate_loop": _take_loop,
    "twice": _take_twice,
    "of_gradient": _take_of_gradient,
    "shard_map": _take_shard_map,
    "map": _take_map,
    "jit": _take_jit,
    "aux": _take_aux,
}
