"""Parts of a training step: gradients, optimizers, accumulation, recomputation, whole transformers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from tests.replay.programs.arguments import W, X, draw_ids, draw_normal, make_case
from tests.replay.programs.transformer import CONFIGURATIONS, PARAMETERS, make_train_step


def mlp_sgd(w1: Any, w2: Any, x: Any, y: Any) -> Any:
    def loss(w1: Any, w2: Any) -> Any:
        return jnp.mean((jax.nn.relu(x @ w1) @ w2 - y) ** 2)

    value, (g1, g2) = jax.value_and_grad(loss, (0, 1))(w1, w2)
    return {"loss": value, "w1": w1 - 0.1 * g1, "w2": w2 - 0.1 * g2}


def with_optimizer(make: Callable[[], Any]) -> Callable[..., Any]:
    def step(w: Any, x: Any, y: Any) -> Any:
        optimizer = make()
        state = optimizer.init({"w": w})
        for scale in (1.0, 0.5):
            gradient = jax.grad(lambda p, s=scale: jnp.mean(jnp.tanh(x @ p["w"] * s - y) ** 2))({"w": w})
            updates, state = optimizer.update(gradient, state, {"w": w})
            w = optax.apply_updates({"w": w}, updates)["w"]
        return {"w": w}

    return step


def clipped_and_averaged(w: Any, ema: Any, x: Any) -> Any:
    gradient = jax.grad(lambda w: jnp.sum(jnp.sin(x @ w)))(w)
    norm = jnp.sqrt(jnp.sum(gradient**2))
    gradient = gradient * jnp.minimum(1.0, 1.0 / norm)
    return {"norm": norm, "w": w - 0.1 * gradient, "ema": 0.9 * ema + 0.1 * w}


def log_softmax_loss(logits: Any, labels: Any) -> Any:
    def loss(logits: Any) -> Any:
        smooth = jax.nn.one_hot(labels, logits.shape[1]) * 0.9 + 0.1 / logits.shape[1]
        return -(jax.nn.log_softmax(logits) * smooth).sum(1).mean()

    value, gradient = jax.value_and_grad(loss)(logits)
    return {"loss": value, "gradient": gradient}


def hessian_vector(w: Any, x: Any, v: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.log1p(jnp.exp(x @ w)).sum()

    return jax.jvp(jax.grad(loss), (w,), (v,))


@jax.custom_vjp
def _clipped(x: Any) -> Any:
    return jnp.sin(x)


_clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.clip(g * jnp.cos(x), -0.5, 0.5),))


def custom_rule(x: Any) -> Any:
    return jax.grad(lambda x: (_clipped(x) * x).sum())(x)


def accumulated(w: Any, total: Any, batches: Any) -> Any:
    def micro(carry: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        return carry + gradient, loss

    gradient, losses = jax.lax.scan(micro, jnp.zeros_like(w), batches)
    return {"w": w - gradient / len(batches), "total": total + losses.sum(), "losses": losses}


def recomputed(w: Any, x: Any) -> Any:
    @jax.checkpoint
    def block(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w) @ w.T

    def loss(w: Any) -> Any:
        return jnp.sum(block(block(block(x, w), w), w) ** 2)

    value, gradient = jax.value_and_grad(loss)(w)
    return {"loss": value, "gradient": gradient}


CASES = (
    make_case(
        "mlp_sgd",
        mlp_sgd,
        draw_normal(16, 32, seed=1),
        draw_normal(32, 4, seed=2),
        draw_normal(8, 16, seed=3),
        draw_normal(8, 4, seed=4),
    ),
    *[
        make_case(f"optimizer_{name}", with_optimizer(make), W, X, draw_normal(12, 8, seed=3))
        for name, make in {
            "adam": lambda: optax.adam(1e-2),
            "adamw": lambda: optax.adamw(1e-2, weight_decay=0.1),
            "momentum": lambda: optax.sgd(1e-2, momentum=0.9, nesterov=True),
            "lion": lambda: optax.lion(1e-3),
            "adafactor": lambda: optax.adafactor(1e-2),
            "schedule": lambda: optax.chain(
                optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.1, 100))
            ),
        }.items()
    ],
    make_case("clipped_and_averaged", clipped_and_averaged, W, draw_normal(16, 8, seed=5, donate=True), X),
    make_case("log_softmax_loss", log_softmax_loss, draw_normal(9, 21), draw_ids(9, high=21)),
    make_case("hessian_vector", hessian_vector, W, X, draw_normal(16, 8, seed=6)),
    make_case("custom_rule", custom_rule, draw_normal(11)),
    make_case("accumulated", accumulated, W, draw_normal(1, donate=True), draw_normal(4, 12, 16, seed=4)),
    make_case("recomputed", recomputed, draw_normal(16, 16, scale=0.2), draw_normal(4, 16, seed=1)),
    *[
        make_case(f"transformer_{name}", make_train_step(configuration), *PARAMETERS, draw_ids(2, 8, high=32))
        for name, configuration in CONFIGURATIONS.items()
    ],
)
