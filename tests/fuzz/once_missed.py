"""Programs with a wrong output that was once called right.

In each of them XLA, which knows nothing of the kernel, sees that some value does not change. In FOUND (tools/fuzz on
two H200s, reduced) XLA computes one operand of a product before the kernel and reads the other one after it. TWINS
compute the same value twice, and the kernel overwrites one of the two: XLA merges them. In LOOPS each iteration of the
schedule reads after the kernel what the program reads before it.
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
    """Overwrites x and reads y."""
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
    """To XLA the mean of a stack with one row is that row: neither the stack nor the mean is left."""
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
    """A conversion in a loop that runs once, and one after the loop."""
    narrow = x.astype(jnp.bfloat16)

    def step(state: Any, _: Any) -> Any:
        wide = narrow.astype(jnp.float32)
        total = damp(wide, y).sum()
        return state, (wide, total)

    _, (stacked, totals) = jax.lax.scan(step, jnp.float32(0), jnp.zeros(1))
    return {"both": (stacked.mean(0) + narrow.astype(jnp.float32)) * 0.6, "total": totals.sum()}


def choose_one(x: Any, y: Any) -> dict[str, Any]:
    """To XLA the maximum of a value and itself is that value, and so is a choice between both: the operation is gone."""
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
    """XLA gives both kernels one value, which both overwrite, and nothing orders them: `total` is right by luck."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()
    return {"other": damp(value, again).sum(), "total": total}


def hand_to_kernel_behind_workaround(x: Any, y: Any) -> dict[str, Any]:
    """The second kernel waits for the first one through its other operand: its result depends on both."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    sums = bend(value)
    shift = sums.sum() * 1e-3
    ordered = value + shift - shift
    return {"other": damp(again, ordered).sum(), "total": sums.sum()}


def compute_again_in_branch(x: Any, y: Any) -> dict[str, Any]:
    """XLA inlines a branch, whose operations then have the conditional's tag before their own."""
    value = jnp.tanh(x)
    total = bend(value).sum()
    return {
        "both": jax.lax.cond(y[0, 0] > -9, lambda: (jnp.tanh(x) - value).sum(0), lambda: value.sum(0)),
        "total": total,
    }


def choose_in_branch(x: Any, y: Any) -> dict[str, Any]:
    """Each branch returns one of the twins: to XLA the conditional is that value, whichever branch is taken."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()
    return {"chosen": jax.lax.cond(y[0, 0] > -9, lambda: again, lambda: value), "total": total}


def choose_beside_product(x: Any, y: Any) -> dict[str, Any]:
    """The conditional stays, and with these arguments takes the right branch; another draw takes the wrong one."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()
    chosen, beside = jax.lax.cond(y[0, 0] > 9, lambda: (again, y @ y), lambda: (value, jnp.sin(y) @ x))
    return {"chosen": chosen, "beside": beside, "total": total}


def choose_by_turns(x: Any, y: Any) -> dict[str, Any]:
    """A loop whose body exchanges the two values."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()
    count = 3 + (y[0, 0] > 9).astype(jnp.int32)

    def step(_: Any, state: Any) -> Any:
        one, other, mixed = state
        return other, one, jnp.sin(mixed) @ y * 0.1 + one

    one, other, mixed = jax.lax.fori_loop(0, count, step, (value, again, y))
    return {"one": one, "other": other, "mixed": mixed, "total": total}


def choose_by_turns_three_times(x: Any, y: Any) -> dict[str, Any]:
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()
    one, other = jax.lax.fori_loop(0, 3, lambda _, state: (state[1], state[0]), (value, again))
    return {"one": one, "other": other, "total": total}


def exchange_by_data(x: Any, y: Any) -> dict[str, Any]:
    """A branch in the loop exchanges the two values."""
    value, again = jnp.tanh(x), jnp.tanh(x)
    total = bend(value).sum()

    def step(index: Any, state: Any) -> Any:
        return jax.lax.cond(index % 2 == 0, lambda: state[::-1], lambda: state)

    one, other = jax.lax.fori_loop(0, 3, step, (value, again))
    return {"one": one, "other": other, "total": total}


def write_by_turns(x: Any, y: Any) -> dict[str, Any]:
    """Two buffers of zeros, which the iterations overwrite in turn; XLA has only one."""

    def step(index: Any, state: Any) -> Any:
        one, other, total = state
        return other, one, total + bend(one).sum() * (index + 1)

    one, other, total = jax.lax.fori_loop(0, 4, step, (jnp.zeros(x.shape), jnp.zeros(x.shape), 0.0))
    return {"one": one + x, "other": other + y, "total": total}


def read_before_in_loop(x: Any, y: Any) -> dict[str, Any]:
    """The state has the writes of earlier iterations either way. The author's copy of the other state is gone."""

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
    """JAX converts the constant to its own dtype after the kernel, and MLIR folds the conversion.

    The copy that replaced it in the program as written came before the kernel.
    """

    def step(state: Any, _: Any) -> Any:
        value = jnp.full(x.shape, 0.7)
        total = bend(value).sum()
        return state * 0.5 + value, total

    state, totals = jax.lax.scan(step, x, jnp.arange(3))
    return {"state": state, "totals": totals}


def join_halves(x: Any) -> dict[str, Any]:
    """On two devices XLA computes the square before the kernel, from a concatenation that the partitioner left unnamed."""
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
    """XLA scales the cumulative sum once for both, before the kernel, under the name of the one that nothing reads."""
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


def add_small_term(x: Any, y: Any) -> dict[str, Any]:
    """The numbers are wrong by at most a percent, which once passed for rounding and contradicted no "fresh"."""
    value, other = jnp.tanh(x), jnp.tanh(y @ y)
    total = bend(value).sum() + bend(other).sum()
    return {"both": value * 1e-2 + jnp.sort(other), "total": total}


@triton.jit
def adam_kernel(p_ptr, m_ptr, v_ptr, g_ptr, sum_ptr, COLUMNS: tl.constexpr):
    """Overwrites p, m and v."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    g = tl.load(g_ptr + at)
    m = 0.9 * tl.load(m_ptr + at) + 0.1 * g
    tl.store(m_ptr + at, m)
    v = 0.99 * tl.load(v_ptr + at) + 0.01 * g * g
    tl.store(v_ptr + at, v)
    p = tl.load(p_ptr + at) - 0.1 * m / (tl.sqrt(tl.abs(v)) + 1e-3)
    tl.store(p_ptr + at, p)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(p))


def update_zeros(x: Any, y: Any) -> dict[str, Any]:
    """The first step of an optimizer: both moments are zeros, which XLA merges, and the kernel overwrites both."""
    parameter, first, second = x * 1.5, jnp.zeros(x.shape), jnp.zeros(x.shape)
    outputs = jax.ShapeDtypeStruct((x.shape[0],), jnp.float32)
    sums = jax_triton.triton_call(
        parameter, first, second, y, kernel=adam_kernel, out_shape=outputs, grid=(x.shape[0],), COLUMNS=x.shape[1]
    )
    return {"parameter": parameter, "first": first, "second": second, "sums": sums}


def scale_scaled(x: Any, y: Any) -> dict[str, Any]:
    """XLA multiplies the scale into the factor of the row, and reads the unscaled rows."""
    scaled = jax.lax.cond(x[7, 8] > x[0, 7], lambda a, b: b, lambda a, b: b, x * 1.13, y * 1.24)
    sums = bend(scaled)
    normal = scaled * jax.lax.rsqrt((scaled * scaled).mean(1, keepdims=True) + 1)
    product = jnp.dot(scaled.T, scaled, preferred_element_type=jnp.float32) * 0.25
    outputs = {"scaled": scaled.astype(jnp.float32), "product": product, "normal": normal.astype(jnp.float32)}
    return {"total": sums.sum(), "norm": sum((one * one).mean() for one in outputs.values()), **outputs}


def choose_by_stale(x: Any, y: Any) -> dict[str, Any]:
    """A value from before the outer kernel decides whether the inner one runs, which overwrites its operand."""
    rolled = jnp.roll(y, 3, 0)
    total = damp(rolled, y).sum()
    value = rolled * 1.19
    more = jax.lax.cond(rolled[5, 15] > rolled[2, 0], lambda one: bend(one).sum(), lambda _: jnp.float32(0), value)
    centred = value - value.mean(1, keepdims=True)
    return {"total": total, "more": more, "centred": centred, "beside": x * 2}


ARGUMENTS = tuple(Arg(shape=(SIZE, SIZE), draw=Draw(seed=seed)) for seed in (1, 2))
FOUND = (damp_in_loop, damp_in_branch, damp_row_of_one)
WRONG = "stale|clobbered"
TWINS = {
    convert_twice: {"both": WRONG, "total": "fresh"},
    choose_one: {"total": "fresh", "*": WRONG},
    call_twice: {"total": "fresh", "triple": "fresh", "difference": WRONG, "product": WRONG},
    hand_to_kernel: {"total": "latent|clobbered", "other": WRONG},
    hand_to_kernel_behind_workaround: {"total": "fresh|clobbered", "other": WRONG},
    compute_again_in_branch: {"both": WRONG, "total": "fresh"},
    choose_in_branch: {"chosen": WRONG, "total": "fresh"},
    choose_beside_product: {"chosen": WRONG, "beside": "fresh", "total": "fresh"},
    choose_by_turns: {"total": "fresh", "*": WRONG},
    choose_by_turns_three_times: {"total": "fresh", "*": WRONG},
    exchange_by_data: {"total": "fresh", "*": WRONG},
    write_by_turns: {"*": WRONG},
}
LOOPS = {read_before_in_loop: {"*": WRONG}, read_before_in_inner_loop: {"*": WRONG}}
OTHERS = {
    add_constant: {"state": WRONG, "totals": "fresh"},
    exchange_halves_twice: {"total": "fresh", "left": "fresh", "both": WRONG},
    scale_twins: {"*": WRONG},
    choose_by_stale: {"more": WRONG, "centred": WRONG, "*": "fresh"},
    add_small_term: {"both": WRONG, "total": "fresh"},
    update_zeros: {"first": WRONG, "second": WRONG, "*": f"{WRONG}|unknown"},
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
        name=scale_scaled.__name__,
        function=scale_scaled,
        args=tuple(Arg(shape=(8, 16), dtype="float16", draw=Draw(seed=seed)) for seed in (3, 4)),
        expected={"total": "fresh", "*": WRONG},
    ),
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
