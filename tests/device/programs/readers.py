"""Small programs around the kernel that doubles its operand in place: outputs of every kind, and one without numbers."""

from typing import Any

import jax.numpy as jnp

from ligerdiag import Arg, Case
from tests.analysis.programs.doubling_kernel import WB, XB, X, double, logits, miss, see


def compute(x: Any, w: Any) -> dict[str, Any]:
    """XLA makes `missed` stale and `largest` clobbered; `seen` and `sign` read after the kernel; `total` is independent."""
    h = logits(x, w)
    largest = h.max()
    sums = double(h)
    return {"missed": miss(h, w), "largest": largest, **_see(h, sums), "total": x.sum()}


def compute_reference(x: Any, w: Any) -> dict[str, Any]:
    """Computes the outputs in plain jnp."""
    h = logits(x, w)
    return {"missed": miss(2 * h, w), "largest": h.max(), **_see(2 * h, h.sum(1)), "total": x.sum()}


def compute_another(x: Any, w: Any) -> dict[str, Any]:
    """Slightly off in `seen`, nearer to the stale result in `missed`, and another number for `total`."""
    right = compute_reference(x, w)
    return {**right, "seen": 1.03 * right["seen"], "missed": 0.9 * right["missed"], "total": 4 * right["total"]}


def _see(h: Any, sums: Any) -> dict[str, Any]:
    seen = see(h, sums)
    return {"seen": seen, "sign": (seen > sums[:, None]).astype(jnp.int32)}


def transform(x: Any) -> Any:
    return jnp.abs(jnp.fft.fft(x))


def amplify(x: Any) -> dict[str, Any]:
    """Has no kernel; the sines of large products depend on the last bits of the operands."""
    return {"argument": x, "sines": jnp.sin(200 * (x @ x))}


def return_kept_last(x: Any, *kept: Any) -> tuple[Any, ...]:
    """Gives three equal means before three donated numbers: XLA puts the numbers into one another's buffers."""
    mean = jnp.square(x).mean()
    return mean, mean, mean, *kept


def make_number(value: float) -> Arg:
    return Arg(shape=(), donate=True, draw=lambda key, shape, dtype: jnp.full(shape, value, dtype))


ONES = Arg(shape=(8, 8), draw=lambda key, shape, dtype: jnp.ones(shape, dtype))

CASES = (
    Case(name="readers", function=compute, args=(XB, WB)),
    Case(name="referenced", function=compute, args=(XB, WB), reference=compute_reference),
    Case(name="another", function=compute, args=(XB, WB), reference=compute_another),
    Case(name="transform", function=transform, args=(X,)),
    Case(name="donated", function=return_kept_last, args=(ONES, *map(make_number, (2, 3, 4)))),
    Case(name="amplifying", function=amplify, args=(Arg(shape=(64, 64)),)),
)
