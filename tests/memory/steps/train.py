"""Training steps as public projects write them: CASES."""

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.training.train_state import TrainState
from jax import lax

from ligerdiag.model.case import Arg, Case
from tests.memory.steps.arguments import (
    BATCH,
    TOKENS,
    VOCABULARY,
    WIDTH,
    cross_entropy,
    ids,
    llama_loss,
    llama_shapes,
    make_args,
    shape,
)

POLICIES = jax.checkpoint_policies


def update(optimizer: Any, loss: Callable[..., Any], state: Any, batch: Any) -> Any:
    """A step of MaxText: state in, state and metrics out."""
    value, gradients = jax.value_and_grad(loss)(state["params"], batch)
    changes, opt_state = optimizer.update(gradients, state["opt_state"], state["params"])
    params = optax.apply_updates(state["params"], changes)
    metrics = {"loss": value, "grad_norm": optax.global_norm(gradients), "param_norm": optax.global_norm(params)}
    return {"params": params, "opt_state": opt_state, "step": state["step"] + 1}, metrics


def make_state(optimizer: Any, shapes: Any) -> Any:
    return {
        "params": shapes,
        "opt_state": jax.eval_shape(optimizer.init, shapes),
        "step": jax.ShapeDtypeStruct((), jnp.dtype("int32")),
    }


def accumulated(optimizer: Any, state: Any, batches: Any) -> Any:
    """Gradients of microbatches are added in a scan, clipped and applied."""

    def add(total: Any, batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(llama_loss)(state["params"], batch)
        return jax.tree.map(jnp.add, total, gradients), loss

    zeros = jax.tree.map(jnp.zeros_like, state["params"])
    gradients, losses = lax.scan(add, zeros, batches)
    gradients = jax.tree.map(lambda one: one / 4, gradients)
    changes, opt_state = optimizer.update(gradients, state["opt_state"], state["params"])
    return {"params": optax.apply_updates(state["params"], changes), "opt_state": opt_state}, losses.mean()


def master_weights(optimizer: Any, params: Any, master: Any, opt_state: Any, batch: Any) -> Any:
    """The model's weights are bf16, and the optimizer has its own in f32."""
    loss, gradients = jax.value_and_grad(llama_loss)(params, batch)
    gradients = jax.tree.map(lambda one: one.astype(jnp.float32), gradients)
    changes, opt_state = optimizer.update(gradients, opt_state, master)
    master = optax.apply_updates(master, changes)
    return jax.tree.map(lambda one: one.astype(jnp.bfloat16), master), master, opt_state, loss


def with_average(optimizer: Any, params: Any, average: Any, opt_state: Any, batch: Any) -> Any:
    """The moving average of the parameters is part of the state."""
    loss, gradients = jax.value_and_grad(llama_loss)(params, batch)
    changes, opt_state = optimizer.update(gradients, opt_state, params)
    params = optax.apply_updates(params, changes)
    average = jax.tree.map(lambda a, p: 0.999 * a + 0.001 * p, average, params)
    return params, average, opt_state, loss


def loss_first(optimizer: Any, params: Any, opt_state: Any, batch: Any) -> Any:
    """Returns in another order than it takes."""
    loss, gradients = jax.value_and_grad(llama_loss)(params, batch)
    changes, opt_state = optimizer.update(gradients, opt_state, params)
    return loss, opt_state, optax.apply_updates(params, changes)


def scaled_loss(optimizer: Any, params: Any, opt_state: Any, scale: Any, batch: Any) -> Any:
    """Skips the update by a conditional where a gradient is not finite."""
    loss, gradients = jax.value_and_grad(lambda p: scale * llama_loss(p, batch, dtype=jnp.float16))(params)
    gradients = jax.tree.map(lambda one: one / scale, gradients)
    is_finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(one)) for one in jax.tree.leaves(gradients)]))

    def apply(params: Any, opt_state: Any) -> Any:
        changes, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, changes), opt_state

    params, opt_state = lax.cond(is_finite, apply, lambda *same: same, params, opt_state)
    return params, opt_state, jnp.where(is_finite, scale * 1.001, scale / 2), loss / scale


def several_steps(optimizer: Any, params: Any, opt_state: Any, batches: Any) -> Any:
    """A scan over steps of training."""

    def step(carry: Any, batch: Any) -> Any:
        params, opt_state = carry
        loss, gradients = jax.value_and_grad(llama_loss)(params, batch)
        changes, opt_state = optimizer.update(gradients, opt_state, params)
        return (optax.apply_updates(params, changes), opt_state), loss

    (params, opt_state), losses = lax.scan(step, (params, opt_state), batches)
    return params, opt_state, losses


def q_loss(params: Any, target: Any, batch: Any) -> Any:
    x, actions, rewards, following = batch

    def value(params: Any, x: Any) -> Any:
        return jax.nn.relu(x @ params["a"]) @ params["b"]

    picked = jnp.take_along_axis(value(params, x), actions[:, None], 1)[:, 0]
    return jnp.mean((picked - rewards - 0.99 * value(target, following).max(-1)) ** 2)


def target_network(optimizer: Any, params: Any, target: Any, opt_state: Any, step: Any, batch: Any) -> Any:
    """Q-learning: the target network is replaced every 100 steps."""
    gradients = jax.grad(q_loss)(params, target, batch)
    changes, opt_state = optimizer.update(gradients, opt_state, params)
    params = optax.apply_updates(params, changes)
    target = optax.periodic_update(params, target, step, 100)
    return params, target, opt_state, step + 1


def lora(optimizer: Any, base: Any, adapters: Any, opt_state: Any, batch: Any) -> Any:
    """The base is only read."""

    def loss(adapters: Any) -> Any:
        merged = {**base, "layers": {**base["layers"]}}
        merged["layers"]["qkv"] = base["layers"]["qkv"] + adapters["a"] @ adapters["b"]
        return llama_loss(merged, batch)

    value, gradients = jax.value_and_grad(loss)(adapters)
    changes, opt_state = optimizer.update(gradients, opt_state, adapters)
    return optax.apply_updates(adapters, changes), opt_state, value


def flash(q: Any, k: Any, v: Any) -> Any:
    """Attention by blocks of keys, with the running maximum and sum in a scan, as tokamax's in plain jnp."""
    blocks = [one.reshape(BATCH, -1, 64, *one.shape[2:]).swapaxes(0, 1) for one in (k, v)]
    rows = jnp.arange(q.shape[1])

    def step(carry: Any, block: Any) -> Any:
        out, top, total = carry
        (k, v), number = block
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        scores = jnp.where(rows[:, None] >= number * 64 + jnp.arange(64), scores, -1e30)
        new_top = jnp.maximum(top, scores.max(-1))
        weights = jnp.exp(scores - new_top[..., None])
        factor = jnp.exp(top - new_top)
        out = out * factor[..., None] + jnp.einsum("bhqk,bkhd->bhqd", weights, v)
        return (out, new_top, total * factor + weights.sum(-1)), None

    start = jnp.zeros((BATCH, q.shape[2], q.shape[1], q.shape[3])), jnp.full((BATCH, q.shape[2], q.shape[1]), -1e30)
    (out, _, total), _ = lax.scan(step, (*start, jnp.zeros_like(start[1])), (blocks, jnp.arange(len(blocks[0]))))
    return (out / total[..., None]).swapaxes(1, 2)


def flash_step(weights: Any, momentum: Any, x: Any, y: Any) -> Any:
    """Momentum in place around attention by blocks."""

    def loss(weights: Any) -> Any:
        q, k, v = (jnp.einsum("btw,whd->bthd", x, weights[name]) for name in "qkv")
        return jnp.mean((jnp.einsum("bthd,hdw->btw", flash(q, k, v), weights["o"]) - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(weights)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return jax.tree.map(lambda w, m: w - 0.1 * m, weights, momentum), momentum, value


class Block(nn.Module):
    """A block of a transformer in linen."""

    @nn.compact
    def __call__(self, x: Any, is_training: Any) -> Any:
        y = nn.LayerNorm()(x)
        x += nn.MultiHeadDotProductAttention(num_heads=4)(y)
        y = nn.Dense(WIDTH)(nn.gelu(nn.Dense(2 * WIDTH)(nn.LayerNorm()(x))))
        return x + nn.Dropout(0.1, deterministic=not is_training)(y)


class Linen(nn.Module):
    """Two blocks, an embedding and a head."""

    @nn.compact
    def __call__(self, tokens: Any, *, is_training: bool = True) -> Any:
        x = nn.Embed(VOCABULARY, WIDTH)(tokens)
        for _ in range(2):
            x = Block()(x, is_training)
        return nn.Dense(VOCABULARY)(x)


def linen_step(state: TrainState, batch: Any, seed: Any) -> Any:
    """Flax's TrainState."""
    tokens, targets = batch
    key = jax.random.fold_in(jax.random.key(seed), state.step)

    def loss(params: Any) -> Any:
        return cross_entropy(state.apply_fn({"params": params}, tokens, rngs={"dropout": key}), targets)

    value, gradients = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=gradients), value


def make_linen(optimizer: Any) -> Any:
    model = Linen()

    def start() -> Any:
        tokens = jnp.zeros((1, 8), jnp.int32)
        params = model.init(jax.random.key(0), tokens, is_training=False)["params"]
        return TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)

    return jax.eval_shape(start)


class Nnx(nnx.Module):
    """A perceptron with batch norm in nnx."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(256, 1024, rngs=rngs)
        self.norm = nnx.BatchNorm(1024, rngs=rngs)
        self.second = nnx.Linear(1024, 256, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.second(nnx.relu(self.norm(self.first(x))))


def make_nnx() -> Any:
    def start() -> Any:
        model = Nnx(nnx.Rngs(0))
        return nnx.split((model, nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)))

    return nnx.eval_shape(start)


GRAPH, NNX_STATE = make_nnx()


def nnx_step(leaves: Any, x: Any, y: Any) -> Any:
    """Nnx by split and merge."""
    state = jax.tree.unflatten(jax.tree.structure(NNX_STATE), leaves)
    model, optimizer = nnx.merge(GRAPH, state)
    loss, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, gradients)
    return jax.tree.leaves(nnx.split((model, optimizer))[1]), loss


def gan(optimizer: Any, maker: Any, judge: Any, states: Any, noise: Any, real: Any) -> Any:
    """Two networks, each with its optimizer."""

    def make(maker: Any) -> Any:
        return jnp.tanh(jax.nn.relu(noise @ maker["a"]) @ maker["b"])

    def tell(judge: Any, x: Any) -> Any:
        return (jax.nn.relu(x @ judge["a"]) @ judge["b"])[:, 0]

    def judge_loss(judge: Any) -> Any:
        return jnp.mean(jax.nn.softplus(tell(judge, make(maker))) + jax.nn.softplus(-tell(judge, real)))

    changes, judge_state = optimizer.update(jax.grad(judge_loss)(judge), states[1], judge)
    judge = optax.apply_updates(judge, changes)
    gradients = jax.grad(lambda maker: jnp.mean(jax.nn.softplus(-tell(judge, make(maker)))))(maker)
    changes, maker_state = optimizer.update(gradients, states[0], maker)
    return optax.apply_updates(maker, changes), judge, (maker_state, judge_state)


def associative(params: Any, momentum: Any, x: Any, y: Any) -> Any:
    """A linear recurrence by `associative_scan`, as in state space models."""

    def loss(params: Any) -> Any:
        gate = jax.nn.sigmoid(x @ params["gate"])
        _, states = lax.associative_scan(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (gate, x @ params["w"]), axis=1
        )
        return jnp.mean((states @ params["out"] - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return jax.tree.map(lambda w, m: w - 0.1 * m, params, momentum), momentum, value


def metrics(params: Any, totals: Any, batch: Any) -> Any:
    """Adds to donated totals, among them a confusion matrix."""
    x, labels = batch
    logits = jax.nn.relu(x @ params["a"]) @ params["b"]
    confusion = totals["confusion"].at[labels, logits.argmax(-1)].add(1)
    return {"confusion": confusion, "loss": totals["loss"] + cross_entropy(logits, labels)}


BATCHES = ids(BATCH, TOKENS), ids(BATCH, TOKENS)
MICRO = ids(4, BATCH, TOKENS), ids(4, BATCH, TOKENS)
SHAPES = llama_shapes()
ADAMW = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4, weight_decay=0.1))
MLP = {"a": shape(256, 1024), "b": shape(1024, 256)}
ONE = Arg(shape=())
COUNT = Arg(shape=(), dtype="int32")


def donated(tree: Any) -> Any:
    return make_args(tree, donate=True)


def case(name: str, function: Any, *args: Any) -> Case:
    return Case(name=name, function=function, args=args)


def train(name: str, optimizer: Any, loss: Any = llama_loss, *, donate: bool = True) -> Case:
    state = make_args(make_state(optimizer, SHAPES), donate=donate)
    return case(name, partial(update, optimizer, loss), state, BATCHES)


def init(optimizer: Any, shapes: Any = SHAPES) -> Any:
    return jax.eval_shape(optimizer.init, shapes)


CASES = (
    train("maxtext_adamw", ADAMW),
    train("maxtext_save_dots", ADAMW, partial(llama_loss, policy=POLICIES.dots_with_no_batch_dims_saveable)),
    train("maxtext_save_all", ADAMW, partial(llama_loss, policy=POLICIES.everything_saveable)),
    train("maxtext_f32", ADAMW, partial(llama_loss, dtype=jnp.float32)),
    train("maxtext_not_donated", ADAMW, donate=False),
    train("adafactor", optax.adafactor(1e-3)),
    train("lion", optax.lion(1e-4)),
    train("momentum", optax.sgd(0.1, momentum=0.9, nesterov=True)),
    train("every_fourth", optax.MultiSteps(optax.adamw(1e-3), 4)),
    case("accumulated", partial(accumulated, ADAMW), donated({"params": SHAPES, "opt_state": init(ADAMW)}), MICRO),
    case(
        "master_weights",
        partial(master_weights, ADAMW),
        donated(llama_shapes("bfloat16")),
        donated(SHAPES),
        donated(init(ADAMW)),
        BATCHES,
    ),
    case("with_average", partial(with_average, ADAMW), donated(SHAPES), donated(SHAPES), donated(init(ADAMW)), BATCHES),
    case("loss_first", partial(loss_first, ADAMW), donated(SHAPES), donated(init(ADAMW)), BATCHES),
    case("scaled_loss", partial(scaled_loss, ADAMW), donated(SHAPES), donated(init(ADAMW)), ONE, BATCHES),
    case("several_steps", partial(several_steps, ADAMW), donated(SHAPES), donated(init(ADAMW)), MICRO),
    case(
        "target_network",
        partial(target_network, optax.adam(1e-3)),
        donated(MLP),
        donated(MLP),
        donated(init(optax.adam(1e-3), MLP)),
        COUNT,
        (Arg(shape=(64, 256)), ids(64), Arg(shape=(64,)), Arg(shape=(64, 256))),
    ),
    case(
        "lora",
        partial(lora, ADAMW),
        make_args(SHAPES),
        donated(adapters := {"a": shape(4, 256, 32), "b": shape(4, 32, 768)}),
        donated(init(ADAMW, adapters)),
        BATCHES,
    ),
    case(
        "flash_step",
        flash_step,
        *[donated({**dict.fromkeys("qkv", shape(256, 4, 64)), "o": shape(4, 64, 256)}) for _ in range(2)],
        Arg(shape=(BATCH, 512, 256)),
        Arg(shape=(BATCH, 512, 256)),
    ),
    case("linen", linen_step, donated(make_linen(ADAMW)), BATCHES, COUNT),
    case("nnx", nnx_step, donated(jax.tree.leaves(NNX_STATE)), Arg(shape=(64, 256)), Arg(shape=(64, 256))),
    case(
        "gan",
        partial(gan, optax.adam(1e-3)),
        donated(MLP),
        donated({"a": shape(256, 1024), "b": shape(1024, 1)}),
        donated((init(optax.adam(1e-3), MLP), init(optax.adam(1e-3), {"a": shape(256, 1024), "b": shape(1024, 1)}))),
        Arg(shape=(64, 256)),
        Arg(shape=(64, 256)),
    ),
    case(
        "associative",
        associative,
        *[donated(dict.fromkeys(("gate", "w", "out"), shape(256, 256))) for _ in range(2)],
        Arg(shape=(BATCH, 256, 256)),
        Arg(shape=(BATCH, 256, 256)),
    ),
    case(
        "metrics",
        metrics,
        make_args(MLP),
        donated({"confusion": shape(256, 256, dtype="int32"), "loss": shape()}),
        (Arg(shape=(64, 256)), ids(64)),
    ),
)
