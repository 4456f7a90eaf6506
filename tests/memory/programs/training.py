"""Training steps, with optimizers as optax writes them, and outputs in several orders."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import lax

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


@jax.tree_util.register_dataclass
@dataclass
class TrainState:
    step: object
    params: object
    opt_state: object


CHAIN = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4, weight_decay=0.01))
EVERY_FOUR = optax.MultiSteps(optax.sgd(1e-2, momentum=0.9), every_k_schedule=4)


def describe(tree):
    return jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype), tree)


def initial(optimizer, params):
    state = jax.eval_shape(optimizer.init, describe(params))
    return jax.tree.map(lambda one: own(*one.shape, dtype=str(one.dtype)), state)


def loss(params, x, y):
    for layer in params["layers"]:
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return jnp.mean((x - y) ** 2)


def clipped_adamw(state, x, y):
    value, grads = jax.value_and_grad(loss)(state.params, x, y)
    updates, opt_state = CHAIN.update(grads, state.opt_state, state.params)
    return TrainState(state.step + 1, optax.apply_updates(state.params, updates), opt_state), value


def loss_first(params, opt_state, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updates, opt_state = CHAIN.update(grads, opt_state, params)
    return value, optax.apply_updates(params, updates), opt_state


def state_first(params, opt_state, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updates, opt_state = CHAIN.update(grads, opt_state, params)
    return opt_state, optax.apply_updates(params, updates), value


def moments_scanned_crosswise(w, m, xs):
    def step(state, x):
        w, m = state
        g = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        m = 0.9 * m + g
        return (w - 0.1 * m, m), None

    (w, m), _ = lax.scan(step, (w, m), xs)
    return m, w


def accumulate_every_four(params, opt_state, x, y):
    grads = jax.grad(loss)(params, x, y)
    updates, opt_state = EVERY_FOUR.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def return_gradients_too(params, x, y):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), grads


def norms_of_update(params, x, y):
    """The distance between old and new parameters is logged."""
    grads = jax.grad(loss)(params, x, y)
    new = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return new, optax.global_norm(jax.tree.map(jnp.subtract, new, params))


def lookahead(fast, slow, step):
    """Every sixth step the slow weights follow, and the fast ones start from them."""
    slow = jnp.where(step % 6 == 0, slow + 0.5 * (fast - slow), slow)
    return jnp.where(step % 6 == 0, slow, fast), slow


def polyak_conditional(online, target, step):
    return lax.cond(step % 10 == 0, lambda o, t: 0.99 * t + 0.01 * o, lambda o, t: t, online, target)


def gradient_into_donated(w, x):
    return jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w)))(w)


def mixed_precision(master, half, x):
    """A bf16 copy of the weights is donated, and returned anew."""
    g = jax.grad(lambda h: jnp.mean((x @ h).astype(jnp.float32) ** 2))(half)
    master = master - 0.1 * g.astype(jnp.float32)
    return master, master.astype(jnp.bfloat16)


def shared_embedding(params, ids, labels):
    """The embedding is used at both ends."""

    def run(params):
        h = jnp.tanh(params["emb"][ids] @ params["w"])
        logits = h @ params["emb"].T
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = jax.value_and_grad(run)(params)
    return optax.apply_updates(params, jax.tree.map(lambda g: -0.1 * g, grads)), value


def scan_layers_remat(params, x):
    @partial(jax.checkpoint, policy=jax.checkpoint_policies.nothing_saveable)
    def layer(x, w):
        return x + jax.nn.relu(x @ w["a"]) @ w["b"], None

    def run(params):
        return jnp.mean(lax.scan(layer, x, params)[0] ** 2)

    value, grads = jax.value_and_grad(run)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


LAYER = {"up": own(256, 512), "down": own(512, 256)}
PARAMS = {"layers": [LAYER, LAYER]}
BATCH = (lend(64, 256), lend(64, 256))

CASES = (
    Case(
        name="clipped_adamw",
        function=clipped_adamw,
        args=(TrainState(own(dtype="int32"), PARAMS, initial(CHAIN, PARAMS)), *BATCH),
    ),
    Case(name="loss_first", function=loss_first, args=(PARAMS, initial(CHAIN, PARAMS), *BATCH)),
    Case(name="state_first", function=state_first, args=(PARAMS, initial(CHAIN, PARAMS), *BATCH)),
    Case(
        name="moments_scanned_crosswise",
        function=moments_scanned_crosswise,
        args=(own(512, 512), own(512, 512), lend(4, 64, 512)),
    ),
    Case(
        name="accumulate_every_four",
        function=accumulate_every_four,
        args=(PARAMS, initial(EVERY_FOUR, PARAMS), *BATCH),
    ),
    Case(name="return_gradients_too", function=return_gradients_too, args=(PARAMS, *BATCH)),
    Case(name="norms_of_update", function=norms_of_update, args=(PARAMS, *BATCH)),
    Case(name="lookahead", function=lookahead, args=(own(512, 512), own(512, 512), lend(dtype="int32"))),
    Case(
        name="polyak_conditional",
        function=polyak_conditional,
        args=(lend(512, 512), own(512, 512), lend(dtype="int32")),
    ),
    Case(name="gradient_into_donated", function=gradient_into_donated, args=(own(512, 512), lend(64, 512))),
    Case(
        name="mixed_precision",
        function=mixed_precision,
        args=(own(512, 512), own(512, 512, dtype="bfloat16"), lend(64, 512, dtype="bfloat16")),
    ),
    Case(
        name="shared_embedding",
        function=shared_embedding,
        args=({"emb": own(2048, 128), "w": own(128, 128)}, lend(64, dtype="int32"), lend(64, dtype="int32")),
    ),
    Case(
        name="scan_layers_remat",
        function=scan_layers_remat,
        args=({"a": own(4, 256, 512), "b": own(4, 512, 256)}, lend(64, 256)),
    ),
)
