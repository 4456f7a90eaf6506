"""Programs that `python -m tools.fuzz` found or led to, reduced: verdict and numbers once contradicted each other."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from jax.sharding import PartitionSpec as P

from ligerdiag.model.case import Arg, Case, Draw

SIZE = 64


@triton.jit
def turn_kernel(x_ptr, y_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x and y."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    y = tl.load(y_ptr + at).to(tl.float32)
    place = tl.arange(0, COLUMNS) / COLUMNS + 0.1 * tl.program_id(0)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x - y))
    tl.store(x_ptr + at, (0.8 * x + 0.6 * place * y).to(x_ptr.dtype.element_ty))
    tl.store(y_ptr + at, (0.8 * y - 0.6 * place * x).to(y_ptr.dtype.element_ty))


def turn(x: jax.Array, y: jax.Array) -> jax.Array:
    sums = jax.ShapeDtypeStruct((x.shape[0],), jnp.float32)
    return jax_triton.triton_call(x, y, kernel=turn_kernel, out_shape=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])


def convert_twice(x: Any, y: Any) -> dict[str, Any]:
    """XLA makes one conversion, in two places, of the conversions of `x` before and after the kernel.

    The same kernel overwrites the product of the first one, so that `product` rightly depends on both.
    """
    first = x.astype(jnp.float32) @ y * 0.1
    sums = turn(first, x)
    return {"product": first @ x.astype(jnp.float32) * 0.1, "sums": sums}


def convert_in_call(x: Any, y: Any) -> dict[str, Any]:
    """A function converts `y` for nothing but the product that a kernel overwrites; the program converts it once more.

    XLA inlines the call and merges the conversions: the merged one is not the old contents of the product.
    """

    @jax.jit
    def call(x: jax.Array) -> jax.Array:
        return turn(x.astype(jnp.float32) @ y.astype(jnp.float32) * 0.25, x * 1.5)

    sums = call(x)
    beside = (jnp.outer(sums, jnp.cos(jnp.arange(SIZE))) + y.astype(jnp.float32)) * 0.74
    return {"sums": sums, "beside": jnp.roll(beside, 3, 0)}


def call_twice(x: Any, y: Any) -> dict[str, Any]:
    """A jitted function with a hidden write, called twice on equal arguments, as for a metric and its gradient.

    XLA inlines both calls and merges the kernel calls: a reader of the second operand reads the overwritten one.
    """

    @jax.jit
    def call(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        product = x @ y
        return turn(product, x * 1.5), product

    (sums, product), (sums_again, product_again) = call(x), call(x)
    return {"first": sums.sum() + jnp.cos(product).sum(), "second": 2 * sums_again.sum() + jnp.sin(product_again).sum()}


def shift_beside(narrow: Any, split: Any) -> dict[str, Any]:
    """The partitioner computes the place of a device's rows by a conversion that has the tag of the author's."""
    product = split @ narrow.astype(jnp.float32) * 0.25
    sums = turn(product, split)
    shifted = narrow + 1.22
    scaled = jax.lax.with_sharding_constraint(shifted * 1.31, P("d", None))
    norm = sum((one * one).mean() for one in (product, shifted.astype(jnp.float32), scaled.astype(jnp.float32)))
    return {
        "sums": sums.sum(),
        "shifted": shifted.astype(jnp.float32),
        "scaled": scaled.astype(jnp.float32),
        "norm": norm,
    }


@triton.jit
def bend_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    place = tl.arange(0, COLUMNS) / COLUMNS + 0.1 * tl.program_id(0)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x * (1 + place)))
    tl.store(x_ptr + at, 0.7 * x * x - 0.4 * place)


def bend(x: jax.Array) -> jax.Array:
    sums = jax.ShapeDtypeStruct((x.shape[0],), jnp.float32)
    return jax_triton.triton_call(x, kernel=bend_kernel, out_shape=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])


def skip_step(x: Any, y: Any) -> dict[str, Any]:
    """XLA tests whether the gradient from before the kernel is finite, which it happens to be, too."""
    gradient = jnp.tanh(x) * 2
    sums = bend(gradient)
    is_finite = jnp.isfinite(gradient).all()
    return {"step": jnp.where(is_finite, y - 0.1 * jnp.sort(gradient), y), "sums": sums}


def clip_step(x: Any, y: Any) -> dict[str, Any]:
    """The norm from before the kernel is as far below the bound as the intended one."""
    gradient = jnp.tanh(x) * 2
    sums = bend(gradient)
    norm = jnp.sqrt((gradient * gradient).sum())
    return {"step": y - jnp.sort(gradient) * jnp.minimum(1.0, 1e3 / norm), "sums": sums}


def scale_step(x: Any, y: Any) -> dict[str, Any]:
    """Clips as optax does: the quotient by the norm is computed, but not chosen."""
    gradient = jnp.tanh(x) * 2
    sums = bend(gradient)
    norm = jnp.sqrt((gradient * gradient).sum())
    ordered = jnp.sort(gradient)
    return {"step": y - jnp.where(norm < 1e3, ordered, ordered / norm * 1e3), "sums": sums}


def count_steps(x: Any, y: Any) -> dict[str, Any]:
    """The number of iterations depends on the value from before the kernel."""
    gradient = jnp.tanh(x) * 2
    sums = bend(gradient)
    count = jnp.where(gradient.mean() > 100, 3, 2)
    step = jax.lax.fori_loop(0, count, lambda _, state: jnp.sort(jnp.sin(state) * y), jnp.sort(gradient))
    return {"step": step, "sums": sums}


def merge_with_operand(x: Any, y: Any) -> dict[str, Any]:
    """XLA computes `turned` from the operands of the kernel's operand, rightly."""
    product = x * y
    sums = bend(product)
    return {"product": product + 1, "turned": y * x + 1, "sums": sums}


def merge_with_scaled(x: Any, y: Any) -> dict[str, Any]:
    product = (x * 2) * 3
    sums = bend(product)
    return {"scaled": x * 6 + 1, "product": product + 1, "sums": sums}


def exchange_factors(x: Any, y: Any) -> dict[str, Any]:
    """XLA exchanges the operands of the product and transposes it: the smaller operand comes second."""
    sums = bend(x).sum()
    return {"sums": sums, "product": x @ y * 0.125}


def transpose_for_product(x: Any, y: Any) -> dict[str, Any]:
    """XLA takes the value instead of its transpose."""
    value = x @ y * 0.25
    sums = bend(value).sum()
    return {"sums": sums, "product": value.T @ x * 0.25}


def join_with_later(x: Any, y: Any) -> dict[str, Any]:
    """XLA computes both products with x as one, after the kernel, as intended.

    The second product also depends on another kernel.
    """
    sums = bend(x).sum()
    first = y.T @ x * 0.25
    scaled = jnp.sin(x).T @ y * 0.25
    more = bend(scaled).sum()
    later = jnp.cos(scaled) @ x.T @ x * 0.25
    return {"sums": sums, "more": more, "first": first, "later": later}


def join_with_outer(x: Any, y: Any) -> dict[str, Any]:
    """XLA computes both products with x as one, and joins their other operands, one of which is x, under x's name."""
    sums = turn(x, y)
    more, wide = bend(x), x.astype(jnp.float32)
    outer = jnp.outer(sums / 16, jnp.cos(more / 16))
    return {"first": sums, "more": more, "own": wide @ wide * 0.25, "product": wide @ outer * 0.25}


def concatenate_for_products(x: Any, y: Any) -> dict[str, Any]:
    """The backward pass of a rotary embedding and its projections, after a kernel.

    XLA joins the products with `x`, and adds a concatenation for that. `turned` is a concatenation of the author's,
    whose product with `y` XLA does not join.
    """
    gradient, other = jnp.cos(x), jnp.sin(x)
    gradient, other, sums = jax.lax.optimization_barrier((gradient, other, turn(gradient, other)))
    half = gradient.shape[1] // 2
    turned = jnp.concatenate([gradient[:, half:], -gradient[:, :half]], axis=1)
    beside, product = (jnp.einsum("th,tv->hv", one, x) for one in (other, turned))
    return {"step": turned @ y, "product": product, "beside": beside, "sums": sums}


_WIDE, _NARROW = (Arg(shape=(SIZE, SIZE), dtype=dtype, draw=Draw(seed=1)) for dtype in ("float32", "bfloat16"))
CASES = (
    Case(
        name="convert_twice",
        function=convert_twice,
        args=(replace(_NARROW, draw=Draw(seed=0)), _WIDE),
        expected={"product": "fresh|latent", "sums": "fresh"},
    ),
    Case(
        name="convert_in_call",
        function=convert_in_call,
        args=(replace(_NARROW, draw=Draw(seed=0)), _NARROW),
        expected="fresh",
    ),
    Case(
        name="call_twice",
        function=call_twice,
        args=(replace(_WIDE, draw=Draw(seed=0)), _WIDE),
        expected={"first": "fresh|latent", "second": "fresh|latent"},
        expected_rules=("LD003", "LD006", "LD008"),
    ),
    Case(
        name="shift_beside",
        function=shift_beside,
        args=(replace(_NARROW, partition=()), Arg(shape=(8, SIZE), draw=Draw(seed=2), partition=(None, "d"))),
        mesh={"d": 2},
        expected={"norm": "stale", "*": "fresh"},
    ),
    *[
        Case(
            name=function.__name__,
            function=function,
            args=(replace(_WIDE, draw=Draw(seed=0)), _WIDE),
            expected={"product": "stale", "*": "fresh"},
        )
        for function in (merge_with_operand, merge_with_scaled)
    ],
    *[
        Case(
            name=function.__name__,
            function=function,
            args=(replace(_WIDE, draw=Draw(seed=0)), _WIDE),
            expected={"step": "stale", "sums": "fresh"},
        )
        for function in (skip_step, clip_step, scale_step, count_steps)
    ],
    *[
        Case(
            name=function.__name__,
            function=function,
            args=(Arg(shape=(SIZE // 2, SIZE), draw=Draw(seed=0)), Arg(shape=(SIZE, SIZE), draw=Draw(seed=1))),
            expected={"sums": "fresh", "product": "fresh|latent"},
        )
        for function in (exchange_factors, transpose_for_product)
    ],
    Case(
        name="join_with_later",
        function=join_with_later,
        args=(Arg(shape=(SIZE // 2, SIZE), draw=Draw(seed=0)), Arg(shape=(SIZE // 2, SIZE), draw=Draw(seed=1))),
        expected={"sums": "fresh", "*": "fresh|latent"},
    ),
    Case(
        name="concatenate_for_products",
        function=concatenate_for_products,
        args=(replace(_WIDE, draw=Draw(seed=0)), _WIDE),
        expected="fresh",
    ),
    Case(
        name="join_with_outer",
        function=join_with_outer,
        args=tuple(Arg(shape=(16, 16), dtype="float16", draw=Draw(seed=seed)) for seed in range(2)),
        expected={"*": "fresh|latent"},
    ),
)
