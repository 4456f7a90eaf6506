"""Loops that exchange their state buffers, in which a kernel fills another buffer each round; and similar ones that are
wrong.
"""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case, Draw

SIZE, ROUNDS = 256, 5
_OUT = "out_type" if "out_type" in inspect.signature(jax_triton.triton_call).parameters else "out_shape"


@triton.jit
def smooth_kernel(a_ptr, b_ptr, change_ptr, N: tl.constexpr):
    """Fills b with the means of neighbours in a."""
    at = tl.arange(0, N)
    left = tl.load(a_ptr + at - 1, mask=at > 0, other=0.0)
    right = tl.load(a_ptr + at + 1, mask=at + 1 < N, other=0.0)
    mid = tl.load(a_ptr + at)
    tl.store(b_ptr + at, 0.25 * left + 0.5 * mid + 0.25 * right)
    tl.store(change_ptr, tl.max(tl.abs(left - right)))


@triton.jit
def wave_kernel(now_ptr, before_ptr, energy_ptr, N: tl.constexpr):
    """Steps a wave equation: overwrites the time step before last."""
    at = tl.arange(0, N)
    left = tl.load(now_ptr + at - 1, mask=at > 0, other=0.0)
    right = tl.load(now_ptr + at + 1, mask=at + 1 < N, other=0.0)
    new = left + right - tl.load(before_ptr + at)
    tl.store(before_ptr + at, 0.99 * new)
    tl.store(energy_ptr, tl.sum(new * new))


def fill(kernel: Any, *operands: jax.Array) -> jax.Array:
    """Returns a number."""
    out = {_OUT: jax.ShapeDtypeStruct((), jnp.float32)}
    return jax_triton.triton_call(*operands, kernel=kernel, grid=1, N=SIZE, **out)


def plain(a: Any, b: Any, n: Any) -> dict[str, Any]:
    def body(state: Any) -> Any:
        old, new, _, i = state
        change = fill(smooth_kernel, old, new)
        return new, old, change, i + 1

    a, b, change, _ = jax.lax.while_loop(lambda s: s[3] < n, body, (a, b, jnp.float32(0), jnp.int32(0)))
    return {"now": a, "apart": jnp.abs(a - b).sum(), "change": change}


def started(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """One of the buffers starts as an update of an argument."""
    return plain(a.at[0].set(4.0), b, n)


def made(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """Both buffers are made in the program."""
    return plain(jnp.sin(a), b * 2.0 + 1.0, n)


def divided(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """XLA turns these into products and sums."""
    return plain(a / 3.0, b - 1.5, n)


def gathered(a: Any, b: Any, n: Any) -> dict[str, Any]:
    return plain(jnp.take(jnp.stack([a, b]), n - 4, 0), jnp.roll(b, 1), n)


def powers(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """XLA turns each of these into several operations."""
    return plain(a**3, jnp.log1p(jnp.abs(b)), n)


def normalized(a: Any, b: Any, n: Any) -> dict[str, Any]:
    return plain(jax.nn.softmax(a), jax.nn.gelu(b), n)


def empty(a: Any, b: Any, n: Any) -> dict[str, Any]:
    return plain(jnp.cumsum(a), jnp.zeros_like(a), n)


def counted(a: Any, b: Any, n: Any) -> dict[str, Any]:
    def body(_: Any, state: Any) -> Any:
        old, new, total = state
        return new, old, total + fill(wave_kernel, old, new)

    a, b, total = jax.lax.fori_loop(0, ROUNDS, body, (a, b, jnp.float32(0)))
    return {"now": a, "before": b, "total": total}


def counted_by_argument(a: Any, b: Any, n: Any) -> dict[str, Any]:
    def body(_: Any, state: Any) -> Any:
        old, new, total = state
        return new, old, total + fill(wave_kernel, old, new)

    a, b, total = jax.lax.fori_loop(0, n, body, (a * 0.5, b + 1.0, jnp.float32(0)))
    return {"now": a, "before": b, "total": total}


def scanned(a: Any, b: Any, n: Any) -> dict[str, Any]:
    def body(state: Any, w: Any) -> Any:
        old, new = state
        change = fill(smooth_kernel, old, new)
        return (new, old), change + w

    (a, b), changes = jax.lax.scan(body, (a, b), jnp.arange(4.0))
    return {"now": a, "before": b, "changes": changes}


def recorded(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """A scan that stacks the result of each round."""

    def body(state: Any, _: Any) -> Any:
        old, new = state
        change = fill(smooth_kernel, old, new)
        return (new, old), (new * 2.0, change)

    (a, _), (rows, changes) = jax.lax.scan(body, (a + 1.0, b), None, length=4)
    return {"now": a, "rows": rows, "changes": changes}


def rotated(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """Three buffers."""

    def body(_: Any, state: Any) -> Any:
        one, two, three, total = state
        total = total + fill(wave_kernel, one, three)
        return three, one, two, total

    one, two, three, total = jax.lax.fori_loop(0, n, body, (a, b, a * b, jnp.float32(0)))
    return {"one": one, "two": two, "three": three, "total": total}


def rotated_in_a_scan(a: Any, b: Any, n: Any) -> dict[str, Any]:
    def body(state: Any, _: Any) -> Any:
        one, two, three = state
        change = fill(smooth_kernel, one, two)
        return (two, three, one), change

    state, changes = jax.lax.scan(body, (a, b, a - b), None, length=5)
    return {"state": state, "changes": changes}


def to_and_fro(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """Two kernels, and no exchange."""

    def body(_: Any, state: Any) -> Any:
        one, two, total = state
        change = fill(smooth_kernel, one, two)
        energy = fill(wave_kernel, two, one + 0 * change)
        return one, two, total + energy

    one, two, total = jax.lax.fori_loop(0, n, body, (a, b, jnp.float32(0)))
    return {"one": one, "two": two, "total": total}


def two_kernels(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """Two kernels in sequence, each with its own source; the buffers are exchanged."""

    def body(_: Any, state: Any) -> Any:
        old, new, total = state
        change = fill(smooth_kernel, old, new)
        energy = fill(wave_kernel, new, old)
        return new, old, total + energy + change

    one, two, total = jax.lax.fori_loop(0, n, body, (a, b, jnp.float32(0)))
    return {"one": one, "two": two, "total": total}


def exchanged_by_cond(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """The buffers are exchanged if the change is large."""

    def body(_: Any, state: Any) -> Any:
        old, new, total = state
        change = fill(smooth_kernel, old, new)
        old, new = jax.lax.cond(change > 0.5, lambda o, n: (n, o), lambda o, n: (o, n), old, new)
        return old, new, total + change

    one, two, total = jax.lax.fori_loop(0, n, body, (a, b, jnp.float32(0)))
    return {"one": one, "two": two, "total": total}


def in_a_branch(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """Every other round fills one buffer, the remaining rounds the other."""

    def body(i: Any, state: Any) -> Any:
        one, two, total = state
        change = jax.lax.cond(
            i % 2 == 0,
            lambda one, two: fill(smooth_kernel, one, two),
            lambda one, two: fill(smooth_kernel, two, one),
            one,
            two,
        )
        return one, two, total + change

    one, two, total = jax.lax.fori_loop(0, n, body, (a, b, jnp.float32(0)))
    return {"one": one, "two": two, "total": total}


def in_three_branches(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """A switch between three buffers, each filled from the one before it."""
    branches = [
        lambda one, two, three: fill(wave_kernel, one, two),
        lambda one, two, three: fill(wave_kernel, two, three),
        lambda one, two, three: fill(wave_kernel, three, one),
    ]

    def body(i: Any, state: Any) -> Any:
        total, *buffers = state
        return total + jax.lax.switch(i % 3, branches, *buffers), *buffers

    return {"state": jax.lax.fori_loop(0, n, body, (jnp.float32(0), a * 1.5, b, a - b))}


def in_branches_that_read(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """A branch after the kernel reads the filled buffer, in either order of the buffers."""

    def step(one: Any, two: Any) -> Any:
        change = fill(smooth_kernel, one, two)
        return (jnp.sin(two) * change).sum()

    def body(i: Any, state: Any) -> Any:
        one, two, total = state
        total = total + jax.lax.cond(i % 2 == 0, step, lambda one, two: step(two, one), one, two)
        return one, two, total

    one, two, total = jax.lax.fori_loop(0, n, body, (a, b, jnp.float32(0)))
    return {"one": one, "two": two, "total": total}


def in_branches_that_need_the_old(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """The same, but the branch needs the old contents."""

    def step(one: Any, two: Any) -> Any:
        was = jnp.sin(two)
        change = fill(smooth_kernel, one, two)
        return (was * change).sum()

    total = jax.lax.cond(n % 2 == 0, step, lambda one, two: step(two, one), a * 1.5, b * 2.0)
    return {"total": total}


def nested(a: Any, b: Any, n: Any) -> dict[str, Any]:
    def inner(_: Any, state: Any) -> Any:
        old, new, total = state
        return new, old, total + fill(smooth_kernel, old, new)

    def outer(_: Any, state: Any) -> Any:
        old, new, total = jax.lax.fori_loop(0, 3, inner, state)
        return new * 1.5, old, total

    one, two, total = jax.lax.fori_loop(0, n, outer, (a, b, jnp.float32(0)))
    return {"one": one, "two": two, "total": total}


def once(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """Without a loop: XLA sees that no copy is needed."""
    change = fill(smooth_kernel, a, b)
    again = fill(wave_kernel, b, a)
    return {"a": a, "b": b, "sum": change + again}


# wrong programs


def needs_the_one_before(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """`sums` needs the old contents of the buffer, but waits for the kernel that fills it."""

    def body(state: Any, w: Any) -> Any:
        old, new = state
        was = jnp.tanh(new)
        change = fill(smooth_kernel, old, new)
        return (new, old), (was * (change + w)).sum()

    (a, b), sums = jax.lax.scan(body, (a, b), jnp.arange(4.0))
    return {"now": a, "sums": sums}


def needs_the_new_one(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """`tops` should read the filled buffer, but XLA sorts only once, before the kernel, which waits for it."""

    def body(state: Any, w: Any) -> Any:
        old, new = state
        was = jnp.sort(new)[-1]
        change = fill(smooth_kernel, old + 0 * was, new)
        return (new, old), jnp.sort(new)[-1] + change

    (a, b), tops = jax.lax.scan(body, (a, b), jnp.arange(4.0))
    return {"now": a, "tops": tops}


def rotated_and_kept(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """`total` needs the third buffer from before the kernel fills it, and reads it after the kernel."""

    def body(_: Any, state: Any) -> Any:
        one, two, three, total = state
        was = jnp.exp(three)
        energy = fill(wave_kernel, one, three)
        return three, one, two, total + (was * energy).sum()

    one, two, three, total = jax.lax.fori_loop(0, n, body, (a, b, a * b, jnp.float32(0)))
    return {"one": one, "two": two, "three": three, "total": total}


def both_of_one(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """Both buffers start as the same value: XLA sees no difference between them, and the kernel fills both."""
    a = a * 2.0
    return plain(a, a, n)


def exchanged_without_need(a: Any, b: Any, n: Any) -> dict[str, Any]:
    """The branches return the buffer from before and after the kernel, which are the same value to XLA."""

    def body(_: Any, state: Any) -> Any:
        old, new, total = state
        was = new * 1.0 + 1.0
        change = fill(smooth_kernel, old, new)
        now = new * 1.0 + 1.0
        return old, new, total + jax.lax.cond(change > 0.1, lambda: was, lambda: now).sum()

    one, two, total = jax.lax.fori_loop(0, n, body, (a, b, jnp.float32(0)))
    return {"one": one, "two": two, "total": total}


RIGHT = (
    *(plain, started, made, divided, gathered, powers, normalized, empty, counted, counted_by_argument),
    *(scanned, recorded, rotated, rotated_in_a_scan, two_kernels, exchanged_by_cond, in_a_branch, in_three_branches),
    *(in_branches_that_read, nested, to_and_fro),
)
WRONG = (
    *(once, in_branches_that_need_the_old, needs_the_one_before, needs_the_new_one, rotated_and_kept, both_of_one),
    exchanged_without_need,
)
_ARGS = (
    Arg(shape=(SIZE,), donate=True),
    Arg(shape=(SIZE,), draw=Draw(seed=3), donate=True),
    Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=ROUNDS, high=ROUNDS + 1)),
)
CASES = tuple(Case(name=one.__name__, function=one, args=_ARGS) for one in (*RIGHT, *WRONG))
