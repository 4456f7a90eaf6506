"""Programs in which XLA takes slices, or sums over devices, after the arithmetic that the author does with them.

Each new slice or all-reduce is a clone of the first factor's or term's, with its name.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from jax.sharding import PartitionSpec as P

from ligerdiag import Arg, Case

SIZE, HALF = 16, 8
type Pair = tuple[jax.Array, jax.Array]


@triton.jit
def halve_kernel(x_ptr, weight_ptr, mean_ptr, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    x = tl.load(x_ptr + at)
    tl.store(mean_ptr, tl.sum(x * tl.load(weight_ptr + at)) / COUNT)
    tl.store(x_ptr + at, 0.5 * x + 1.0)


def halve(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Overwrites x and returns a weighted mean of what it was."""
    out = jax.ShapeDtypeStruct((), jnp.float32)
    return jax_triton.triton_call(x, weight, kernel=halve_kernel, out_shape=out, grid=1, COUNT=x.size)


def multiply_halves(one: jax.Array, other: jax.Array) -> Pair:
    return one[:HALF] * other[:HALF], one[HALF:] * other[HALF:]


def parts(x: Any, y: Any) -> dict[str, Any]:
    """Rows are multiplied, columns subtracted, and sums are chains; only `other` is overwritten."""
    one, other = jnp.sin(x), jnp.cos(y)
    total = halve(other, x)
    other = other + total - total
    low, high = multiply_halves(one, other)
    left, right = one[:, :HALF] - other[:, :HALF], one[:, HALF:] - other[:, HALF:]
    rows = sum(one[number] * other[number] for number in range(4))
    third = jnp.tanh(x + y)
    first, last = one[:HALF] + third[:HALF] + other[:HALF], one[HALF:] + third[HALF:] + other[HALF:]
    found = {"low": low, "high": high, "left": left, "right": right, "rows": rows, "first": first, "last": last}
    return {"total": total, **found}


def rotated(x: Any, y: Any) -> dict[str, Any]:
    """A rotary embedding; of four products, XLA joins the two that are subtracted. The rotation runs before the kernel."""
    one, other = jnp.sin(x), jnp.cos(y)
    a, b, c, d = one[:, :HALF], one[:, HALF:], other[:, :HALF], other[:, HALF:]
    turned = jnp.concatenate([a * c - b * d, a * d + b * c], 1)
    total = halve(other, turned)
    low, high = jax.jit(multiply_halves)(one, other + total - total)
    return {"total": total, "turned": turned, "low": low, "high": high}


def merged_halves(x: Any, y: Any) -> dict[str, Any]:
    """The high half means what the kernel leaves, the low one what it finds. XLA makes one product of both."""
    one, other = jnp.sin(x), jnp.cos(y).astype(jnp.bfloat16).astype(jnp.float32)
    before = jnp.tanh(other)
    old = jnp.cos(y).astype(jnp.bfloat16).astype(jnp.float32)
    total = halve(other, before)
    low, _ = multiply_halves(before + one * total, old)
    _, high = multiply_halves(before + one * total, other.astype(jnp.bfloat16).astype(jnp.float32))
    return {"total": total, "low": low, "high": high}


def behind_conversions(x: Any, y: Any) -> dict[str, Any]:
    """XLA omits the conversions of the overwritten factor, whose slice gives its name."""
    other = jnp.cos(y).astype(jnp.bfloat16).astype(jnp.float32)
    before = jnp.tanh(other)
    total = halve(other, before)
    low, high = multiply_halves(other.astype(jnp.bfloat16).astype(jnp.float32), before + jnp.sin(x) * total)
    return {"total": total, "low": low, "high": high}


def old_factor(x: Any, y: Any) -> dict[str, Any]:
    """XLA reads one factor from the product, and not from its transpose, which the kernel overwrites; the other factor
    depends on both versions.
    """
    product = x @ y
    other = product.T
    before = jnp.tanh(other)
    total = halve(other, before)
    both = before + (other + total - total)
    low, high = multiply_halves(other.T, both)
    left, right = both[:, :HALF] - other.T[:, :HALF], both[:, HALF:] - other.T[:, HALF:]
    return {"total": total, "product": product, "low": low, "high": high, "left": left, "right": right}


def merged_conversion(x: Any, y: Any) -> dict[str, Any]:
    """The overwritten conversion of the product gets the name of the one that reads what the kernel wrote."""
    other = (x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16)).astype(jnp.float32)
    before = jnp.tanh(other)
    total = halve(other, before)
    both = before + (other + total - total)
    return {"total": total, "scaled": other.astype(jnp.bfloat16).astype(jnp.float32) * both}


def sums(x: Any, y: Any) -> dict[str, Any]:
    """XLA adds, or takes the maximum, before it sums over the devices."""

    def run(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
        one, other = jnp.sin(x), jnp.cos(y)
        total = halve(other, x)
        other = other + total - total
        largest = jnp.maximum(jax.lax.pmax(one, "x"), jax.lax.pmax(other, "x"))
        return total[None], jax.lax.psum(one, "x") + jax.lax.psum(other, "x"), largest

    found = jax.shard_map(run, in_specs=(P("x"), P("x")), out_specs=(P("x"),) * 3, check_vma=False)(x, y)
    return dict(zip(("total", "sum", "largest"), found, strict=True))


CASES = tuple(
    Case(
        name=function.__name__,
        function=function,
        args=tuple(Arg(shape=(SIZE, SIZE), partition=("x", None) if function is sums else ()) for _ in range(2)),
        mesh={"x": 2} if function is sums else {},
    )
    for function in (parts, rotated, merged_halves, behind_conversions, old_factor, merged_conversion, sums)
)
