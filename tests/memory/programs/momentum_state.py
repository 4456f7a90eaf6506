"""Steps that keep the weights of the step before: in one donated structure, with momentum and a ring of norms, and as
arguments of their own. The arguments that only give their bytes are kept.
"""

import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case

SHAPE = (512, 512)
BLOCKS = ("block0", "block1", "block2")


def descend(run: dict, data: dict):
    def compute_loss(weights: dict) -> jax.Array:
        x = data["x"]
        for name in BLOCKS:
            x = jnp.tanh(x @ weights[name]["gate"]) @ weights[name]["up"]
        return jnp.mean((x - data["labels"]) ** 2)

    loss, gradients = jax.value_and_grad(compute_loss)(run["weights"])
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, run["velocity"], gradients)
    weights = jax.tree.map(lambda w, v: w - 0.01 * v, run["weights"], velocity)
    norms = jnp.roll(run["norms"], 1).at[0].set(loss)
    return {"weights": weights, "previous": run["weights"], "velocity": velocity, "norms": norms}, loss


def own(*shape: int, dtype: str = "float32") -> Arg:
    return Arg(shape=shape, dtype=dtype, donate=True)


def make_tree(dtype: str = "float32") -> dict:
    return {name: {part: own(*SHAPE, dtype=dtype) for part in ("gate", "up")} for name in BLOCKS}


STATE = {
    "weights": make_tree(),
    "previous": make_tree(),
    "velocity": make_tree("bfloat16"),
    "norms": own(64),
}
DATA = {"x": own(*SHAPE), "labels": own(*SHAPE)}

SMALL = {"x": own(64, 512), "labels": own(64, 512)}
HALF = {"x": own(*SHAPE, dtype="bfloat16"), "labels": own(*SHAPE, dtype="bfloat16")}
WEIGHTS = STATE | {"velocity": make_tree()}

CASES = [
    Case(name="momentum_in_bf16", function=descend, args=(STATE, DATA), keep_unused=True),
    Case(name="batch_of_another_shape", function=descend, args=(WEIGHTS, SMALL), keep_unused=True),
    Case(name="batch_of_another_dtype", function=descend, args=(WEIGHTS, HALF), keep_unused=True),
]


def keep_old(weights: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    return weights - 0.1 * gradient, weights


def keep_old_first(weights: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    return weights, weights - 0.1 * gradient


def keep_old_and_write(cache: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
    return cache.at[3].set(row), cache


def keep_old_first_and_write(cache: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
    return cache, cache.at[3].set(row)


def rotate(state: dict, gradient: jax.Array) -> dict:
    return {"weights": state["weights"] - 0.1 * gradient, "previous": state["weights"]}


def rotate_split(weights: jax.Array, spare: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The caller passes the returned new weights as `weights`, and the returned old ones as `spare`."""
    return weights, weights - 0.1 * gradient


def drop_half(half: jax.Array, full: jax.Array) -> tuple[jax.Array, jax.Array]:
    return full, jnp.sum(half.astype(jnp.float32))


CASES += [
    Case(name="keep_old", function=keep_old, args=(own(*SHAPE), Arg(shape=SHAPE))),
    Case(name="keep_old_first", function=keep_old_first, args=(own(*SHAPE), Arg(shape=SHAPE))),
    Case(name="keep_old_and_write", function=keep_old_and_write, args=(own(*SHAPE), Arg(shape=SHAPE[1:]))),
    Case(name="keep_old_first_and_write", function=keep_old_first_and_write, args=(own(*SHAPE), Arg(shape=SHAPE[1:]))),
    Case(
        name="rotate",
        function=rotate,
        args=({"weights": own(*SHAPE), "previous": own(*SHAPE)}, Arg(shape=SHAPE)),
        keep_unused=True,
    ),
    Case(name="drop_half", function=drop_half, args=(own(*SHAPE, dtype="bfloat16"), Arg(shape=SHAPE))),
    Case(
        name="rotate_split",
        function=rotate_split,
        args=(own(*SHAPE), own(*SHAPE), Arg(shape=SHAPE)),
        keep_unused=True,
    ),
]
