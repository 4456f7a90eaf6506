"""Benchmarks KL and Jensen-Shannon divergence of bf16 logits, alone and after the output layers of two models.

The student is Llama 3.2 1B, the teacher Llama 3.1 8B.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from tools.bench_kernels.record import Benchmark, Cost, Size, Way

_VOCABULARY = 128256
_SIZES = tuple(Size(tokens, _VOCABULARY) for tokens in (4096, 8192))
_LINEAR_SIZES = tuple(Size(tokens, _VOCABULARY, 4096) for tokens in (4096, 8192))
"""embedding: the teacher's; the student's is half of it."""


def _draw(size: Size) -> tuple[Any, ...]:
    return tuple(_draw_normal(number, size[:2], 2.0) for number in range(2))


def _draw_linear(size: Size) -> tuple[Any, ...]:
    """Returns inputs and weights of student and teacher, and a gradient of the student's logits."""
    arrays: list[Any] = []
    for number, hidden in enumerate((size.embedding // 2, size.embedding)):
        arrays.append(_draw_normal(2 * number, (size.tokens, hidden), 1.0))
        arrays.append(_draw_normal(2 * number + 1, (hidden, size.width), hidden**-0.5))
    return (*arrays, _draw_normal(9, size[:2], 1.0))


def _draw_normal(seed: int, shape: tuple[int, ...], scale: float) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda: jnp.bfloat16(scale) * jax.random.normal(jax.random.key(seed), shape, jnp.bfloat16))()


def _find(name: str, way: str) -> Callable[..., Any]:
    return getattr(importlib.import_module(f"kernels.{name}.{way}"), name)


def _make_loss(name: str, way: str, _: Size) -> Callable[..., Any]:
    return _find(name, way)


def _make_gradient(name: str, way: str, _: Size) -> Callable[..., Any]:
    import jax

    return jax.value_and_grad(_find(name, way))


def _make_linear(way: str, _: Size) -> Callable[..., Any]:
    import jax

    function = _find("fused_linear_jsd", "api") if way == "api" else _compute_as_written
    return jax.value_and_grad(lambda *arrays: function(*arrays[:4]), argnums=(0, 1))


def _compute_as_written(student: Any, student_weight: Any, teacher: Any, teacher_weight: Any) -> Any:
    """Computes it as a user of JAX writes it: products in bf16, the divergence in f32."""
    return _find("jsd", "reference")(student @ student_weight, teacher @ teacher_weight)


def _compute_products(student: Any, student_weight: Any, teacher: Any, teacher_weight: Any, gradient: Any) -> Any:
    """Computes the products that every implementation needs, on a given gradient of the logits."""
    import jax.numpy as jnp

    return (
        student @ student_weight,
        teacher @ teacher_weight,
        jnp.einsum("tv,hv->th", gradient, student_weight),
        jnp.einsum("th,tv->hv", student, gradient),
    )


def _move(times: int, size: Size) -> Cost:
    return Cost(0, 2 * times * size.tokens * size.width)


def _multiply(times: int, size: Size) -> Cost:
    """Returns the cost of three products with the student's weight, half as high as the teacher's, and one with the
    teacher's; and the traffic of logits.
    """
    return Cost(5 * size.tokens * size.width * size.embedding, _move(times, size).bytes)


def _describe(name: str) -> tuple[Benchmark, Benchmark]:
    ways = (("ours", "api"), ("JAX as written", "reference"))
    return (
        Benchmark(
            name=f"{name}_forward",
            title=f"{name} without gradient, bf16 logits; floor: one read of both arrays of logits",
            sizes=_SIZES,
            draw=_draw,
            ways=tuple(
                Way(name=label, make=partial(_make_loss, name, way), cost=partial(_move, 2)) for label, way in ways
            ),
        ),
        Benchmark(
            name=name,
            title=f"{name} and its gradient, bf16 logits; floor: one read of both arrays of logits and one write",
            sizes=_SIZES,
            draw=_draw,
            ways=(
                Way(
                    name="ours, in place",
                    make=partial(_make_gradient, name, "api"),
                    cost=partial(_move, 3),
                    overwrites=0,
                ),
                Way(name="JAX as written", make=partial(_make_gradient, name, "reference"), cost=partial(_move, 3)),
            ),
        ),
    )


BENCHMARKS = (
    *_describe("kl_div"),
    *_describe("jsd"),
    Benchmark(
        name="fused_linear_jsd",
        title="Linear layers and jsd with the student's gradients, bf16; floor: four products, and that of the divergence",
        sizes=_LINEAR_SIZES,
        draw=_draw_linear,
        ways=(
            Way(name="four cuBLAS products alone", make=lambda _: _compute_products, cost=partial(_multiply, 0)),
            Way(name="ours", make=partial(_make_linear, "api"), cost=partial(_multiply, 3)),
            Way(
                name="JAX as written, whole logits", make=partial(_make_linear, "reference"), cost=partial(_multiply, 3)
            ),
        ),
    ),
)
