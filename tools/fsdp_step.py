"""Defines a train step of some 54,000 instructions, to time a check: 24 unrolled layers of a Llama, all parameters
split over eight devices (FSDP), the head's loss computed by the kernel, a clipped gradient, momentum.

    ligerdiag check 'tools/fsdp_step.py::fsdp_step[hidden]' --no-replay --refresh
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ligerdiag import Arg, Case, Draw

LAYERS, WIDTH, INNER, VOCABULARY, TOKENS, BATCH, HEADS = 24, 256, 688, 2048, 128, 8, 4
_OF_A_LAYER = {
    "q": (WIDTH, WIDTH),
    "k": (WIDTH, WIDTH),
    "v": (WIDTH, WIDTH),
    "o": (WIDTH, WIDTH),
    "gate": (WIDTH, INNER),
    "up": (WIDTH, INNER),
    "down": (INNER, WIDTH),
    "attention_norm": (WIDTH,),
    "mlp_norm": (WIDTH,),
}
_SHAPES: dict[str, tuple[int, ...]] = {
    "embed": (VOCABULARY, WIDTH),
    "head": (WIDTH, VOCABULARY),
    "norm": (WIDTH,),
    **{f"{layer}.{name}": shape for layer in range(LAYERS) for name, shape in _OF_A_LAYER.items()},
}


def _build_step() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy

    def norm(x: Any, scale: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale

    def rotate(x: Any) -> Any:
        half = x.shape[-1] // 2
        angle = jnp.arange(TOKENS)[:, None] * (1e4 ** (-jnp.arange(half) / half))[None]
        cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def attend(x: Any, weights: dict[str, Any]) -> Any:
        q, k, v = (jnp.reshape(x @ weights[name], (*x.shape[:2], HEADS, -1)) for name in "qkv")
        scores = jnp.einsum("bthd,bshd->bhts", rotate(q), rotate(k)) * q.shape[-1] ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), scores, -1e30)
        mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), v)
        return mixed.reshape(x.shape) @ weights["o"]

    def compute_loss(params: dict[str, Any], tokens: Any, targets: Any, mode: str) -> Any:
        x = params["embed"][tokens]
        for layer in range(LAYERS):
            weights = {name: params[f"{layer}.{name}"] for name in _OF_A_LAYER}
            x = x + attend(norm(x, weights["attention_norm"]), weights)
            h = norm(x, weights["mlp_norm"])
            x = x + (jax.nn.silu(h @ weights["gate"]) * (h @ weights["up"])) @ weights["down"]
        x = norm(x, params["norm"])
        return fused_linear_cross_entropy(x.reshape(-1, WIDTH), params["head"], targets.reshape(-1), mode=mode)

    def step(mode: str, params: dict[str, Any], momentum: dict[str, Any], tokens: Any, targets: Any) -> dict[str, Any]:
        loss, gradient = jax.value_and_grad(compute_loss)(params, tokens, targets, mode)
        size = jnp.sqrt(sum(jnp.sum(g * g) for g in gradient.values()))
        clipped = {name: g * jnp.minimum(1.0, 1.0 / size) for name, g in gradient.items()}
        momentum = {name: 0.9 * momentum[name] + 0.1 * g for name, g in clipped.items()}
        params = {name: p - 1e-3 * momentum[name] for name, p in params.items()}
        return {"loss": loss, "norm": size, "params": params, "momentum": momentum}

    return step


def fsdp_step(mode: str, *arrays: Any) -> dict[str, Any]:
    """Returns the step. arrays: the parameters, their momenta, then tokens and targets, int32 [batch, tokens]."""
    count = len(_SHAPES)
    params, momentum = (dict(zip(_SHAPES, part, strict=True)) for part in (arrays[:count], arrays[count : 2 * count]))
    return _build_step()(mode, params, momentum, *arrays[2 * count :])


_STATE = tuple(Arg(shape=shape, partition=("x",), donate=True) for shape in (*_SHAPES.values(), *_SHAPES.values()))
_IDS = Arg(shape=(BATCH, TOKENS), dtype="int32", partition=("x",), draw=Draw(kind="randint", high=VOCABULARY))
CASES = tuple(
    Case(
        name="fsdp_step",
        params=(mode,),
        function=partial(fsdp_step, mode),
        args=(*_STATE, _IDS, _IDS),
        mesh={"x": 8},
    )
    for mode in ("hidden", "aliased")
)
