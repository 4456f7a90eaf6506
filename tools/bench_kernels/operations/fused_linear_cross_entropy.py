"""Benchmarks linear layer and cross entropy at the head of a language model, bf16: the sizes of Llama 3 and Gemma 2."""

from functools import partial
from typing import Any

from tools.bench_kernels.record import Benchmark, Cost, Size, Way


def _draw(size: Size) -> tuple[Any, ...]:
    import jax
    import jax.numpy as jnp

    keys = [jax.random.key(number) for number in range(3)]
    x = jax.jit(lambda: jax.random.normal(keys[0], (size.tokens, size.embedding), jnp.bfloat16))()
    scale = jnp.bfloat16(size.embedding**-0.5)
    weight = jax.jit(lambda: scale * jax.random.normal(keys[1], (size.embedding, size.width), jnp.bfloat16))()
    gradient = jax.jit(lambda: jax.random.normal(keys[0], size[:2], jnp.bfloat16))()
    return x, weight, jax.random.randint(keys[2], size[:1], 0, size.width), gradient


def _compute_products(x: Any, weight: Any, _: Any, gradient: Any) -> Any:
    """Computes the products that every implementation needs, on a given gradient of the logits."""
    import jax.numpy as jnp

    return x @ weight, jnp.einsum("tv,hv->th", gradient, weight), jnp.einsum("th,tv->hv", x, gradient)


def _compute_as_written(x: Any, weight: Any, targets: Any, *_: Any) -> Any:
    """Computes it as a user of JAX writes it."""
    import jax
    import jax.numpy as jnp

    logits = (x @ weight).astype(jnp.float32)
    return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, targets[:, None], 1)[:, 0]).mean()


def _make_gradient_as_written(_: Size) -> Any:
    import jax

    return jax.value_and_grad(_compute_as_written, argnums=(0, 1))


def _make_ours(_: Size, **options: Any) -> Any:
    import jax

    return jax.value_and_grad(partial(_compute, **options), argnums=(0, 1))


def _compute(x: Any, weight: Any, targets: Any, *_: Any, **options: Any) -> Any:
    from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy

    return fused_linear_cross_entropy(x, weight, targets, **options)


def _make_liger(size: Size) -> Any:
    import torch  # pyright: ignore[reportMissingImports]
    from liger_kernel.ops.fused_linear_cross_entropy import (  # pyright: ignore[reportMissingImports]
        LigerFusedLinearCrossEntropyFunction,
    )

    x = torch.randn((size.tokens, size.embedding), device="cuda", dtype=torch.bfloat16).requires_grad_()
    weight = torch.randn((size.width, size.embedding), device="cuda", dtype=torch.bfloat16) * size.embedding**-0.5
    weight.requires_grad_()
    targets = torch.randint(size.width, size[:1], device="cuda")

    def call() -> None:
        results = LigerFusedLinearCrossEntropyFunction.apply(x, weight, targets)
        loss = results[0] if isinstance(results, tuple) else results
        loss.backward()
        x.grad = weight.grad = None

    return call


def _products(size: Size) -> Cost:
    return Cost(6 * size.tokens * size.width * size.embedding, 0)


def _products_and_loss(size: Size) -> Cost:
    return Cost(6 * size.tokens * size.width * size.embedding, 6 * size.tokens * size.width)


def _product_and_loss(size: Size) -> Cost:
    return Cost(2 * size.tokens * size.width * size.embedding, 2 * size.tokens * size.width)


BENCHMARKS = (
    Benchmark(
        name="fused_linear_cross_entropy",
        title="Linear layer and cross entropy with gradients, bf16; floor: the products and the floor of the loss",
        sizes=(
            Size(4096, 128256, 4096),
            Size(8192, 128256, 4096),
            Size(16384, 128256, 4096),
            Size(8192, 256000, 2304),
        ),
        draw=_draw,
        ways=(
            Way(name="three cuBLAS products alone", make=lambda _: _compute_products, cost=_products),
            Way(name="ours", make=_make_ours, cost=_products_and_loss),
            Way(name="ours, sums in f32", make=partial(_make_ours, accumulate="f32"), cost=_products_and_loss),
            Way(
                name="ours, 1 GiB of logits",
                make=partial(_make_ours, logits_bytes=2**30),
                cost=_products_and_loss,
            ),
            Way(name="ours, loss alone", make=lambda _: _compute, cost=_product_and_loss),
            Way(name="JAX as written, whole logits", make=_make_gradient_as_written, cost=_products_and_loss),
            Way(name="Liger (PyTorch)", make=_make_liger, cost=_products_and_loss, torch=True),
        ),
    ),
)
