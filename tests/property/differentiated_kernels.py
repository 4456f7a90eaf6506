"""Losses and layers whose Triton kernel overwrites an array behind XLA's back, in the forms in which people write them.

    rows_kernel       x -> weight * tanh(x), returns per row sum(weight * log(cosh(x))): the array becomes its own gradient
    chain_kernel      g, x -> g * (1 - tanh(x)^2) over g, returns per row sum(g * x): a backward pass in place

with weight = 1 + column / columns, so that nothing commutes by chance. Loss and gradient match, so that a program whose
kernel does what its author intends computes true gradients.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

LOSSES = (
    "direct", "scaled", "negated", "padded", "cast", "pair", "original", "launched_on_residual", "jvp", "declared",
)  # fmt: skip
"""How a loss passes its overwritten logits on; `original` saves them before, `declared` tells XLA."""


@triton.jit
def rows_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    weight = 1 + tl.arange(0, COLUMNS) / COLUMNS
    decay = tl.exp(-2 * tl.abs(x))
    tl.store(sum_ptr + tl.program_id(0), tl.sum(weight * (tl.abs(x) + tl.log((1 + decay) * 0.5))))
    tanh = tl.where(x < 0, -1.0, 1.0) * (1 - decay) / (1 + decay)
    tl.store(x_ptr + at, (weight * tanh).to(x_ptr.dtype.element_ty))


@triton.jit
def declared_rows_kernel(x_ptr, sum_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    weight = 1 + tl.arange(0, COLUMNS) / COLUMNS
    decay = tl.exp(-2 * tl.abs(x))
    tl.store(sum_ptr + tl.program_id(0), tl.sum(weight * (tl.abs(x) + tl.log((1 + decay) * 0.5))))
    tanh = tl.where(x < 0, -1.0, 1.0) * (1 - decay) / (1 + decay)
    tl.store(out_ptr + at, (weight * tanh).to(out_ptr.dtype.element_ty))


@triton.jit
def chain_kernel(g_ptr, x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    g = tl.load(g_ptr + at).to(tl.float32)
    x = tl.load(x_ptr + at).to(tl.float32)
    decay = tl.exp(-2 * tl.abs(x))
    tanh = (1 - decay) / (1 + decay)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(g * x))
    tl.store(g_ptr + at, (g * (1 - tanh * tanh)).to(g_ptr.dtype.element_ty))


def launch_rows(x: jax.Array, *, declared: bool = False) -> tuple[jax.Array, jax.Array]:
    """Returns f32[rows], and the contents of the array x[rows, columns] afterwards."""
    rows, columns = x.shape
    sums = jax.ShapeDtypeStruct((rows,), jnp.float32)
    if declared:
        outputs = (sums, jax.ShapeDtypeStruct(x.shape, x.dtype))
        results = jax_triton.triton_call(
            x,
            kernel=declared_rows_kernel,
            out_shape=outputs,
            grid=(rows,),
            input_output_aliases={0: 1},
            COLUMNS=columns,
        )
        return results[0], results[1]
    return jax_triton.triton_call(x, kernel=rows_kernel, out_shape=sums, grid=(rows,), COLUMNS=columns), x


def launch_chain(g: jax.Array, x: jax.Array) -> jax.Array:
    """Returns f32[rows], and overwrites g[rows, columns]."""
    sums = jax.ShapeDtypeStruct((g.shape[0],), jnp.float32)
    return jax_triton.triton_call(g, x, kernel=chain_kernel, out_shape=sums, grid=(g.shape[0],), COLUMNS=g.shape[1])


def make_loss(kind: str) -> Callable[[jax.Array], jax.Array]:
    """Returns a loss f32[] of x[rows, columns]; `kind` is one of the LOSSES."""
    if kind == "jvp":
        return _make_jvp_loss()
    sign = -1.0 if kind == "negated" else 1.0

    def forward(x: jax.Array) -> tuple[jax.Array, Any]:
        before = x * 1.0 if kind in ("original", "launched_on_residual") else x
        if kind == "launched_on_residual":
            return _sum_rows(before) * sign, before
        sums, after = launch_rows(x, declared=kind == "declared")
        residual = (after, sums) if kind == "pair" else before if kind == "original" else after
        return sums.sum() * sign, residual

    def backward(residual: Any, g: jax.Array) -> tuple[jax.Array]:
        match kind:
            case "direct":
                return (residual,)
            case "negated":
                return (-residual,)
            case "padded":
                half = residual.shape[1] // 2
                return (jnp.pad(residual[:, :half], ((0, 0), (0, residual.shape[1] - half))),)
            case "cast":
                return ((g * residual.astype(jnp.bfloat16).astype(jnp.float32)).astype(residual.dtype),)
            case "pair":
                after, sums = residual
                return ((g * after * (1 + 1e-3 * sums[:, None])).astype(after.dtype),)
            case "original":
                return ((g * _weigh(residual) * jnp.tanh(residual)).astype(residual.dtype),)
            case "launched_on_residual":
                sums, after = launch_rows(residual)
                return ((g * after + 1e-3 * sums[:, None]).astype(residual.dtype),)
            case _:
                return ((g * residual).astype(residual.dtype),)

    loss = jax.custom_vjp(lambda x: forward(x)[0])
    loss.defvjp(forward, backward)
    return loss


def _make_jvp_loss() -> Callable[[jax.Array], jax.Array]:
    @jax.custom_jvp
    def loss(x: jax.Array) -> jax.Array:
        return launch_rows(x)[0].sum()

    @loss.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        sums, after = launch_rows(x)
        return sums.sum(), (t * after).astype(jnp.float32).sum()

    return loss


def _weigh(x: jax.Array) -> jax.Array:
    return 1 + jnp.arange(x.shape[1], dtype=jnp.float32) / x.shape[1]


def _sum_rows(x: jax.Array) -> jax.Array:
    return (_weigh(x) * jnp.log(jnp.cosh(x.astype(jnp.float32)))).sum()


@jax.custom_vjp
def squash(x: jax.Array) -> jax.Array:
    """Returns tanh(x), f32 or bf16[rows, columns]; its backward pass overwrites the cotangent with the gradient."""
    return jnp.tanh(x)


def _squash_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.tanh(x), x


def _squash_backward(x: jax.Array, g: jax.Array) -> tuple[jax.Array]:
    sums = launch_chain(g, x)
    return ((g + 1e-3 * sums[:, None]).astype(x.dtype),)


squash.defvjp(_squash_forward, _squash_backward)
