"""Steps of training and decoding on several described devices: CASES."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax

from ligerdiag.model.case import Arg, Case
from tests.memory.steps.arguments import HEAD, HEADS, LAYERS, ids, llama_loss, llama_shapes, make_args, shape
from tests.memory.steps.decode import ROWS, token_carried, token_listed
from tests.memory.steps.train import ADAMW, MLP, init, make_state, update

P = jax.P
SHAPES = llama_shapes()
PLANS = {
    "fsdp": {
        **dict.fromkeys(("embedding", "head"), ("x",)),
        **dict.fromkeys(("qkv", "out", "gate", "up", "down"), (None, "x")),
    },
    "tensor": {
        "embedding": (None, "x"),
        "head": (None, "x"),
        **dict.fromkeys(("qkv", "gate", "up"), (None, None, "x")),
        **dict.fromkeys(("out", "down"), (None, "x")),
    },
    "both": {
        "embedding": ("x", "y"),
        "head": ("x", "y"),
        **dict.fromkeys(("qkv", "gate", "up"), (None, "x", "y")),
        **dict.fromkeys(("out", "down"), (None, "y", "x")),
    },
}


def place(tree: Any, plan: dict[str, Any], *, donate: bool = True) -> Any:
    """Returns Args, each split as the plan has it for the last key of its path."""

    def make(path: Any, leaf: Any) -> Arg:
        name = str(getattr(path[-1], "key", "")) if path else ""
        return Arg(shape=leaf.shape, dtype=str(leaf.dtype), donate=donate, partition=plan.get(name, ()))

    return jax.tree_util.tree_map_with_path(make, tree)


def batch(*, partition: Any = ("x",)) -> Any:
    return (Arg(shape=(8, 128), dtype="int32", partition=partition),) * 2


def mlp_loss(params: Any, batch: Any) -> Any:
    x, y = batch
    return jnp.mean((jax.nn.gelu(x @ params["a"]) @ params["b"] - y) ** 2)


def data_parallel(optimizer: Any, params: Any, opt_state: Any, batch: Any) -> Any:
    """Each device has all parameters; gradients are averaged by `psum`."""

    def local(params: Any, opt_state: Any, batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(mlp_loss)(params, batch)
        gradients = jax.tree.map(lambda one: lax.pmean(one, "x"), gradients)
        changes, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, changes), opt_state, lax.pmean(loss, "x")

    specs = P(), P(), P("x")
    return jax.shard_map(local, in_specs=specs, out_specs=(P(), P(), P()), check_vma=False)(params, opt_state, batch)


def gathered(params: Any, momentum: Any, batch: Any) -> Any:
    """Each device has a part of the parameters, gathers them by hand, and gets its part of the gradients."""

    def local(params: Any, momentum: Any, batch: Any) -> Any:
        def loss(params: Any) -> Any:
            whole = jax.tree.map(lambda one: lax.all_gather(one, "x", tiled=True), params)
            return mlp_loss(whole, batch)

        value, gradients = jax.value_and_grad(loss)(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, lax.pmean(value, "x")

    specs = P("x"), P("x"), P("x")
    out = P("x"), P("x"), P()
    return jax.shard_map(local, in_specs=specs, out_specs=out, check_vma=False)(params, momentum, batch)


def pipeline(weights: Any, x: Any) -> Any:
    """Each device has a layer and passes what it computes on to the next."""

    def local(weights: Any, x: Any) -> Any:
        def step(carry: Any, number: Any) -> Any:
            state, out = carry
            now = jnp.where(lax.axis_index("x") == 0, x[jnp.minimum(number, 3)], state)
            now = jnp.tanh(now @ weights[0])
            out = out.at[jnp.maximum(number - 3, 0)].set(now)
            return (lax.ppermute(now, "x", [(i, (i + 1) % 4) for i in range(4)]), out), None

        (_, out), _ = lax.scan(step, (jnp.zeros_like(x[0]), jnp.zeros_like(x)), jnp.arange(7))
        return out[None]

    return jax.shard_map(local, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False)(weights, x)


def experts(weights: Any, momentum: Any, x: Any) -> Any:
    """Tokens go to the experts' devices and back by `all_to_all`."""

    def local(weights: Any, momentum: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            sent = lax.all_to_all(x.reshape(8, -1, x.shape[-1]), "x", 0, 0)
            done = jax.nn.gelu(sent @ weights["a"][0]) @ weights["b"][0]
            return jnp.mean(lax.all_to_all(done, "x", 0, 0) ** 2)

        gradients = jax.grad(loss)(weights)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda w, m: w - 0.1 * m, weights, momentum), momentum

    specs = P("x")
    return jax.shard_map(local, in_specs=(specs,) * 3, out_specs=(specs, specs), check_vma=False)(weights, momentum, x)


def zero_one(optimizer: Any, params: Any, opt_state: Any, batch: Any) -> Any:
    """The parameters are whole, and the state of the optimizer is split."""
    loss, gradients = jax.value_and_grad(mlp_loss)(params, batch)
    changes, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, changes), opt_state, loss


def case(name: str, function: Any, *args: Any, mesh: Any) -> Case:
    return Case(name=name, function=function, args=args, mesh=mesh)


def train(name: str, plan: str, mesh: Any) -> Case:
    state = place(make_state(ADAMW, SHAPES), PLANS[plan])
    data = batch(partition=() if plan == "tensor" else ("x",))
    return case(name, partial(update, ADAMW, llama_loss), state, data, mesh=mesh)


ADAM = optax.adam(1e-3)
EXPERTS = {"a": shape(8, 256, 512), "b": shape(8, 512, 256)}
HALF = llama_shapes("bfloat16")
TOKEN, POSITION = ids(ROWS, 1), Arg(shape=(), dtype="int32")
CACHE = shape(ROWS, 512, HEADS, HEAD, dtype="bfloat16")

CASES = (
    train("fsdp_jit", "fsdp", {"x": 4}),
    train("tensor_jit", "tensor", {"x": 2}),
    train("both_jit", "both", {"x": 4, "y": 2}),
    case(
        "data_shard_map",
        partial(data_parallel, ADAM),
        make_args(MLP, donate=True),
        make_args(init(ADAM, MLP), donate=True),
        (Arg(shape=(64, 256), partition=("x",)),) * 2,
        mesh={"x": 8},
    ),
    case(
        "fsdp_shard_map",
        gathered,
        *[make_args(MLP, donate=True, partition=("x", None))] * 2,
        (Arg(shape=(64, 256), partition=("x",)),) * 2,
        mesh={"x": 4},
    ),
    case(
        "zero_one",
        partial(zero_one, ADAM),
        make_args(MLP, donate=True),
        make_args(init(ADAM, MLP), donate=True, partition=("x", None)),
        (Arg(shape=(64, 256), partition=("x",)),) * 2,
        mesh={"x": 4},
    ),
    case(
        "pipeline",
        pipeline,
        Arg(shape=(4, 256, 256), partition=("x",)),
        Arg(shape=(4, 64, 256)),
        mesh={"x": 4},
    ),
    case(
        "experts",
        experts,
        *[make_args(EXPERTS, donate=True, partition=("x", None))] * 2,
        Arg(shape=(2048, 256), partition=("x",)),
        mesh={"x": 8},
    ),
    case(
        "decode_tensor",
        token_listed,
        place(HALF, PLANS["tensor"], donate=False),
        make_args([(CACHE, CACHE)] * LAYERS, donate=True, partition=(None, None, "x", None)),
        TOKEN,
        POSITION,
        mesh={"x": 2},
    ),
    case(
        "decode_carried_tensor",
        token_carried,
        place(HALF, PLANS["tensor"], donate=False),
        make_args(
            {name: shape(LAYERS, *CACHE.shape, dtype="bfloat16") for name in "kv"},
            donate=True,
            partition=(None, None, None, "x", None),
        ),
        TOKEN,
        POSITION,
        mesh={"x": 2},
    ),
    case(
        "decode_rows_split",
        token_listed,
        make_args(HALF),
        make_args([(CACHE, CACHE)] * LAYERS, donate=True, partition=(None, "x", None, None)),
        TOKEN,
        POSITION,
        mesh={"x": 4},
    ),
)
