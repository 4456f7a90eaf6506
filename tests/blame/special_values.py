"""Programs in which XLA looks for NaNs or infinite values before a kernel, although the author looks after it.

The kernel neither makes nor removes special values. Also similar programs in which the read decides more.
"""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case

_OUT = "out_type" if "out_type" in inspect.signature(jax_triton.triton_call).parameters else "out_shape"


@triton.jit
def halve_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x))
    tl.store(x_ptr + at, 0.5 * x)


@triton.jit
def mask_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    """Removes special values."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    x = tl.where(x > -1e30, x, 0.0)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x))
    tl.store(x_ptr + at, tl.minimum(tl.maximum(x, -9.0), 9.0))


def halve(x: jax.Array, kernel: Any = halve_kernel) -> jax.Array:
    out = {_OUT: jax.ShapeDtypeStruct(x.shape[:1], jnp.float32)}
    return jax_triton.triton_call(x, kernel=kernel, grid=x.shape[:1], N=x.shape[1], **out)


def median(x: Any, w: Any) -> Any:
    z = x @ w
    return {"sums": halve(z), "of": jnp.median(z, 1)}


def quantiles(x: Any, w: Any) -> Any:
    z = x @ w
    return {"sums": halve(z), "of": jnp.quantile(z, jnp.array([0.25, 0.75]), axis=1)}


def any_nan(x: Any, w: Any) -> Any:
    """The program looks before and after the kernel, XLA only once."""
    z = x @ w
    before = jnp.isnan(z).any(1)
    sums = halve(z)
    return {"sums": sums, "before": before, "of": jnp.where(jnp.isnan(z).any(1), 0.0, z.sum(1))}


def nan_guard(x: Any, w: Any) -> Any:
    z = x @ w
    bad = jnp.isnan(z)
    sums = halve(z) + bad.sum(1)
    return {"sums": sums, "of": jnp.where(jnp.isnan(z).sum(1)[:, None] > 0, 0.0, z)}


def nan_maximum(x: Any, w: Any) -> Any:
    z = x @ w
    count = jnp.isnan(z).sum(1)
    sums = halve(z) + count
    return {"sums": sums, "of": jnp.where(jnp.isnan(z).sum(1) > 2, -1.0, jnp.nanmax(z, 1))}


def finite_guard(x: Any, w: Any) -> Any:
    z = x @ w
    good = jnp.isfinite(z).all(1)
    sums = halve(z) + good
    return {"sums": sums, "of": jnp.where(jnp.isfinite(z).all(1), z.max(1), 0.0)}


def infinite_guard(x: Any, w: Any) -> Any:
    z = x @ w
    bad = jnp.isinf(z).any(1)
    sums = halve(z) + bad
    return {"sums": sums, "of": jnp.where(jnp.isinf(z).any(1), 0.0, z.min(1))}


def nan_mean(x: Any, w: Any) -> Any:
    z = x @ w
    count = (~jnp.isnan(z)).sum(1)
    sums = halve(z) + count
    return {"sums": sums, "of": z.sum(1) / (~jnp.isnan(z)).sum(1)}


def skipped_step(x: Any, w: Any) -> Any:
    """A step that is skipped if a gradient is not finite, as in loss scaling."""
    z = x @ w
    sums = halve(z) + jnp.isfinite(z).all()
    return {"sums": sums, "of": jnp.where(jnp.isfinite(z).all(), w - 0.1 * z.sum(), w)}


def in_a_scan(x: Any, w: Any) -> Any:
    def body(total: Any, _: Any) -> Any:
        z = x @ w + total
        bad = jnp.isnan(z).any()
        sums = halve(z)
        return total + jnp.where(bad, 0.0, sums.sum()) * 0.01, jnp.where(jnp.isnan(z).any(), 0.0, z.max())

    total, of = jax.lax.scan(body, 0.0, None, length=3)
    return {"sums": total, "of": of}


def in_bfloat16(x: Any, w: Any) -> Any:
    z = (x @ w).astype(jnp.bfloat16)
    bad = jnp.isnan(z.astype(jnp.float32)).any(1)
    sums = halve(z) + bad
    return {"sums": sums, "of": jnp.where(jnp.isnan(z.astype(jnp.float32)).any(1), 0.0, z.max(1))}


# the kernel changes the answer, or the read decides more


def removed(x: Any, w: Any) -> Any:
    """The kernel removes the NaNs, so the numbers are wrong."""
    z = jnp.log(x @ w)
    bad = jnp.isnan(z).any(1)
    sums = halve(z, mask_kernel) + bad
    return {"sums": sums, "of": jnp.where(jnp.isnan(z).any(1), 7.0, z.max(1))}


def largest(x: Any, w: Any) -> Any:
    z = x @ w
    top = jnp.argmax(z, 1)
    sums = halve(z) + top
    return {"sums": sums, "of": jnp.argmax(z, 1) + 0.0}


def sorted_once(x: Any, w: Any) -> Any:
    z = x @ w
    order = jnp.sort(z, 1)
    sums = halve(z) + order[:, 0]
    return {"sums": sums, "of": jnp.sort(z, 1)[:, 1]}


def bound(x: Any, w: Any) -> Any:
    """The value is compared with a number, which concerns more than special values."""
    z = x @ w
    high = (z > 1.0).any(1)
    sums = halve(z) + high
    return {"sums": sums, "of": jnp.where((z > 1.0).any(1), 5.0, z.max(1))}


SPECIAL = (median, quantiles, any_nan, nan_guard, nan_maximum, finite_guard, infinite_guard, nan_mean, skipped_step)
SPECIAL += (in_a_scan, in_bfloat16, removed)
OTHERS = (largest, sorted_once, bound)
CASES = tuple(
    Case(name=one.__name__, function=one, args=(Arg(shape=(32, 32)), Arg(shape=(32, 32)))) for one in SPECIAL + OTHERS
)
