"""Benchmarks the cross entropy of bf16 logits, at the sizes of language models."""

from typing import Any

from tools.bench_kernels.record import Benchmark, Cost, Size, Way

_VOCABULARY = 128256


def _draw(size: Size) -> tuple[Any, ...]:
    import jax
    import jax.numpy as jnp

    logits = jax.jit(lambda: 2 * jax.random.normal(jax.random.key(0), size[:2], jnp.bfloat16))()
    return logits, jax.random.randint(jax.random.key(1), size[:1], 0, size.width)


def _make_gradient(_: Size) -> Any:
    from kernels.cross_entropy.api import cross_entropy_with_gradient

    return cross_entropy_with_gradient


def _make_loss(_: Size) -> Any:
    from kernels.cross_entropy.api import cross_entropy

    return cross_entropy


def _compute_as_written(logits: Any, targets: Any) -> Any:
    """Computes it as a user of JAX writes it."""
    import jax
    import jax.numpy as jnp

    x = logits.astype(jnp.float32)
    return (jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, targets[:, None], 1)[:, 0]).mean()


def _make_gradient_as_written(_: Size) -> Any:
    import jax

    return jax.value_and_grad(_compute_as_written)


def _make_liger(size: Size) -> Any:
    import torch  # pyright: ignore[reportMissingImports]
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction  # pyright: ignore[reportMissingImports]

    logits = torch.randn(size[:2], device="cuda", dtype=torch.bfloat16).requires_grad_()
    targets = torch.randint(size.width, size[:1], device="cuda")

    def call() -> None:
        results = LigerCrossEntropyFunction.apply(logits, targets, None)
        loss = results[0] if isinstance(results, tuple) else results
        loss.backward()
        logits.grad = None

    return call


def _read(size: Size) -> Cost:
    return Cost(0, 2 * size.tokens * size.width)


def _read_twice_and_write(size: Size) -> Cost:
    return Cost(0, 6 * size.tokens * size.width)


BENCHMARKS = (
    Benchmark(
        name="cross_entropy",
        title="Cross entropy and its gradient, bf16 logits; floor: two reads and one write of them",
        sizes=tuple(Size(tokens, _VOCABULARY) for tokens in (4096, 8192, 16384)),
        draw=_draw,
        ways=(
            Way(name="ours, in place", make=_make_gradient, cost=_read_twice_and_write, overwrites=0),
            Way(name="JAX as written", make=_make_gradient_as_written, cost=_read_twice_and_write),
            Way(name="Liger (PyTorch)", make=_make_liger, cost=_read_twice_and_write, torch=True),
        ),
    ),
    Benchmark(
        name="cross_entropy_forward",
        title="Cross entropy without gradient, bf16 logits; floor: one read of them",
        sizes=tuple(Size(tokens, _VOCABULARY) for tokens in (4096, 8192, 16384)),
        draw=_draw,
        ways=(
            Way(name="ours", make=_make_loss, cost=_read),
            Way(name="JAX as written", make=lambda _: _compute_as_written, cost=_read),
        ),
    ),
)
