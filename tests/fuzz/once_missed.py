"""Programs in which a wrong output was once called right. In each XLA sees that a value stays what it was, since it knows
nothing of the kernel.

In FOUND, by `ligerdiag fuzz --device` on two H200s, reduced, it computes one operand of a product before the kernel and
reads the other one behind it. TWINS are the same value twice, of which the kernel overwrites one: XLA makes one of them. In
LOOPS it reads behind the kernel what the program reads before it, in each iteration.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case, Draw

SIZE = 16


@triton.jit
def damp_kernel(x_ptr, y_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x; reads y."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    y = tl.load(y_ptr + at).to(tl.float32)
    tl.store(sum_ptr + tl.program_id(0), tl.sum((x + y) * (1 + tl.arange(0, COLUMNS) / COLUMNS)))
    place = tl.arange(0, COLUMNS) / COLUMNS + 0.1 * tl.program_id(0)
    tl.store(x_ptr + at, (x * tl.exp(-y * y) + 0.5 * place * y).to(x_ptr.dtype.element_ty))


def damp(x: jax.Array, y: jax.Array) -> jax.Array:
    sums = jax.ShapeDtypeStruct((x.shape[0],), jnp.float32)
    return jax_triton.triton_call(x, y, kernel=damp_kernel, out_shape=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])


def multiply_rows(value: Any) -> dict[str, Any]:
    rows = value[jnp.arange(SIZE) * 3 % SIZE]
    products = {"product": rows @ rows * 0.25, "product_again": rows @ value * 0.25}
    return products | {"norm": sum((one * one).mean() for one in products.values())}


def damp_in_loop(y: Any) -> dict[str, Any]:
    """A loop that may not run."""
    turned = y.T

    def step(_: Any, state: Any) -> Any:
        value, before = state
        return value, before + damp(value, turned).sum() * 1e-2

    count = 1 + (y[0, 0] > 0).astype(jnp.int32)
    value, total = jax.lax.fori_loop(0, count, step, (y * 0.64, jnp.float32(0)))
    return {"total": total, **multiply_rows(value)}


def damp_in_branch(y: Any) -> dict[str, Any]:
    """A branch that may not be taken."""
    turned, value = y.T, y * 0.64
    total = jax.lax.cond(y[0, 0] > -9, lambda: damp(value, turned).sum(), lambda: jnp.float32(0))
    return {"total": total, **multiply_rows(value)}


def damp_row_of_one(y: Any) -> dict[str, Any]:
    """The mean of a stack with one row is that row to XLA, and neither the stack nor the mean is left."""
    turned = y.T
    (stacked,) = jax.lax.map(lambda row: (row,), jnp.stack([y * 0.95]))
    value = stacked.mean(0)
    total = damp(value, turned).sum()
    return {"total": total, **multiply_rows(value)}


@triton.jit
def bend_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites x."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    place = tl.arange(0, COLUMNS) / COLUMNS + 0.1 * tl.program_id(0)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x * (1 + place)))
    tl.store(x_ptr + at, (0.7 * x * x - 0.4 * place).to(x_ptr.dtype.element_ty))


def bend(x: jax.Array) -> jax.Array:
    sums = jax.ShapeDtypeStruct((x.shape[0],), jnp.float32)
    return jax_triton.triton_call(x, kernel=bend_kernel, out_shape=sums, grid=(x.shape[0],), COLUMNS=x.shape[1])


def convert_twice(x: Any, y: Any) -> dict[str, Any]:
    """A conversion in a loop that runs once, and one behind the loop."""
    narrow = x.astype(jnp.bfloat16)

    def step(state: Any, _: Any) -> Any:
        wide = narrow.astype(jnp.float32)
        total = damp(wide, y).sum()
        return state, (wide, total)

    _, (stacked, totals) = jax.lax.scan(step, jnp.float32(0), jnp.zeros(1))
    return {"both": (stacked.mean(0) + narrow.astype(jnp.float32)) * 0.6, "total": totals.sum()}


def choose_one(x: Any, y: Any) -> dict[str, Any]:
    """To XLA the larger one of two that are one is that one, and so is the chosen one: the operation is gone."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()
    return {"larger": jnp.maximum(value, again), "chosen": jnp.where(y > 0, value, again), "total": total}


def call_twice(x: Any, y: Any) -> dict[str, Any]:
    double = jax.jit(lambda value: jnp.tanh(value) * 2)
    value = double(x)
    total = bend(value).sum()
    again = double(x)
    return {"triple": again * 3, "difference": value - again, "product": value * again, "total": total}


def hand_to_kernel(x: Any, y: Any) -> dict[str, Any]:
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()
    return {"other": damp(value, again).sum(), "total": total}


def hand_to_kernel_behind_workaround(x: Any, y: Any) -> dict[str, Any]:
    """The second kernel waits for the first one, by way of its other operand: what comes of it depends on both."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    sums = bend(value)
    shift = sums.sum() * 1e-3
    ordered = value + shift - shift
    return {"other": damp(again, ordered).sum(), "total": sums.sum()}


def compute_again_in_branch(x: Any, y: Any) -> dict[str, Any]:
    """A branch that XLA inlines, whose operations then have the conditional's tag before their own."""
    value = jnp.tanh(x)
    total = bend(value).sum()
    return {
        "both": jax.lax.cond(y[0, 0] > -9, lambda: (jnp.tanh(x) - value).sum(0), lambda: value.sum(0)),
        "total": total,
    }


def read_before_in_loop(x: Any, y: Any) -> dict[str, Any]:
    """What earlier iterations wrote is in the state either way. The author's copy of the other state is gone."""

    def step(states: Any, _: Any) -> Any:
        state, other = states
        early, copied = jnp.cos(state), jnp.copy(other)
        totals = bend(state).sum(), bend(other).sum()
        return (jnp.tanh(state) * 0.5 + 0.2 * early, (copied + jnp.tanh(other @ y)) * 0.5), (*totals, early.sum())

    (state, other), totals = jax.lax.scan(step, (x @ y * 0.3, x), jnp.arange(3))
    return {"state": state, "other": other, "totals": totals}


def read_before_in_inner_loop(x: Any, y: Any) -> dict[str, Any]:
    def inner(state: Any, _: Any) -> Any:
        early = jnp.cos(state)
        total = bend(state).sum()
        return jnp.tanh(state) * 0.5 + 0.2 * early, total

    def outer(state: Any, _: Any) -> Any:
        state, totals = jax.lax.scan(inner, state @ y, jnp.arange(2))
        return jnp.tanh(state), totals

    state, totals = jax.lax.scan(outer, x * 0.3, jnp.arange(3))
    return {"state": state, "totals": totals}


def add_constant(x: Any, y: Any) -> dict[str, Any]:
    """JAX converts the constant to its own dtype behind the kernel, MLIR folds that, and the copy that stood for it in the
    program as written was taken before the kernel."""

    def step(state: Any, _: Any) -> Any:
        value = jnp.full(x.shape, 0.7)
        total = bend(value).sum()
        return state * 0.5 + value, total

    state, totals = jax.lax.scan(step, x, jnp.arange(3))
    return {"state": state, "totals": totals}


def join_halves(x: Any) -> dict[str, Any]:
    """On two devices XLA takes the square before the kernel, from a concatenation that the partitioner gave no name."""
    twice = jnp.concatenate([x, x])
    total = bend(twice).sum()
    turned = twice.reshape(-1)[::-1].reshape(twice.shape)
    norm = (twice * twice).mean() + (turned * turned).mean()
    return {"total": total, "twice": twice, "turned": turned, "norm": norm}


def exchange_halves_twice(x: Any, y: Any) -> dict[str, Any]:
    """To XLA the halves exchanged twice are the argument, which the kernel has overwritten by then."""
    del x
    half = SIZE // 2
    exchanged = jnp.concatenate([y[half:], y[:half]])
    sums = damp(y, exchanged)
    outer = jnp.outer(sums / SIZE, jnp.cos(jnp.arange(SIZE)))
    back = jnp.concatenate([exchanged[half:], exchanged[:half]])
    count = 1 + (y[0, 0] > 0).astype(jnp.int32)
    value = jax.lax.fori_loop(0, count, lambda _, state: outer @ exchanged * 0.25, y * 1.49)
    return {"total": sums.sum(), "left": y, "both": value + back}


def scale_twins(x: Any, y: Any) -> dict[str, Any]:
    """XLA scales the cumulated sum once for both, and before the kernel; it has the name of the one that nobody reads."""
    del x
    value = jnp.cumsum(y, axis=0) * 0.3
    total = bend(value).sum()
    pieces = jnp.concatenate([value, value])

    def step(state: Any, rows: Any) -> Any:
        del state
        stacked = jnp.stack([pieces * (0.56 + 0.2 * number) for number in range(3)])
        sums = bend((stacked @ rows * 0.25).reshape(-1, SIZE)).sum()
        return stacked[:, 8 : 8 + SIZE].mean(0), sums

    state, totals = jax.lax.scan(step, value * 0.9, jnp.stack([value * 0.9]))
    return {"state": state, "total": total + totals.sum()}


ARGUMENTS = tuple(Arg(shape=(SIZE, SIZE), draw=Draw(seed=seed)) for seed in (1, 2))
FOUND = (damp_in_loop, damp_in_branch, damp_row_of_one)
WRONG = "stale|clobbered"
TWINS = {
    convert_twice: {"both": WRONG, "total": "fresh"},
    choose_one: {"total": "fresh", "*": WRONG},
    call_twice: {"total": "fresh", "triple": "fresh", "difference": WRONG, "product": WRONG},
    hand_to_kernel: {"total": "fresh|clobbered", "other": WRONG},
    hand_to_kernel_behind_workaround: {"total": "fresh|clobbered", "other": WRONG},
    compute_again_in_branch: {"both": WRONG, "total": "fresh"},
}
LOOPS = {read_before_in_loop: {"*": WRONG}, read_before_in_inner_loop: {"*": WRONG}}
OTHERS = {
    add_constant: {"state": WRONG, "totals": "fresh"},
    exchange_halves_twice: {"total": "fresh", "left": "fresh", "both": WRONG},
    scale_twins: {"*": WRONG},
}
CASES = (
    *[
        Case(
            name=function.__name__,
            function=function,
            args=(Arg(shape=(SIZE, SIZE), draw=Draw(seed=124270)),),
            expected={"total": "fresh", "product": "stale", "product_again": "stale", "norm": "stale"},
        )
        for function in FOUND
    ],
    Case(
        name=join_halves.__name__,
        function=join_halves,
        args=(Arg(shape=(SIZE // 2, SIZE), draw=Draw(seed=1), partition=(None, "d")),),
        mesh={"d": 2},
        expected={"total": "fresh", "twice": WRONG, "turned": "latent", "norm": f"{WRONG}|unknown"},
    ),
    *[
        Case(name=function.__name__, function=function, args=ARGUMENTS, expected=expected)
        for function, expected in (TWINS | LOOPS | OTHERS).items()
    ],
)
