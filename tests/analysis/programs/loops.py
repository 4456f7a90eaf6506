"""Programs with a kernel in a loop, and kernels on the results of loops."""

import jax
import jax.numpy as jnp
from doubling_kernel import WB, XB, Cases, W, X, double, logits, miss, see

CASES = Cases()


@CASES.add(X, W)
def carried_hides_missing(x, w):
    def body(h, _):
        with jax.named_scope("early"):
            early = jnp.tanh(h @ w.T).sum()
        sums = double(h)
        late = jnp.tanh(h @ w.T).sum()  # merged with `early`, which sees only the writes of earlier iterations
        return h, (early, late, sums)

    _, (early, late, sums) = jax.lax.scan(body, x @ w, None, length=3)
    return {"early": early, "late": late, "sums": sums}


@CASES.add(X, W)
def closed_over(x, w):
    h = x @ w

    def body(total, _):
        sums = double(h)
        with jax.named_scope("late"):
            late = h.max(1)
        return total + sums, late

    total, late = jax.lax.scan(body, jnp.zeros(8), None, length=3)
    return {"total": total, "late": late}


@CASES.add(XB, WB)
def mixed_in_body(x, w):
    def body(total, row):
        h = logits(row[None], w)
        sums = double(h)
        return total + miss(h, w).sum() + see(h, sums).sum(), (miss(h, w), see(h, sums))

    total, (missed, seen) = jax.lax.scan(body, jnp.float32(0), x)
    return {"total": total, "missed": missed, "seen": seen}


@CASES.add(XB, WB)
def mixed_over_loop_result(x, w):
    def body(total, row):
        return total + 1, ((row + total)[None] @ w)[0]

    h = jax.lax.scan(body, jnp.bfloat16(0), x)[1].astype(jnp.float32)
    sums = double(h)
    return {"seen": see(h, sums), "norm": miss(h, w).sum() + see(h, sums).sum()}


@CASES.add(X, W)
def write_inside_read_behind(x, w):
    def body(h, _):
        h = h + 1
        sums = double(h)
        return h, sums

    h, sums = jax.lax.scan(body, x @ w, None, length=3)
    return {"back": h @ w.T, "sums": sums}


@CASES.add(X, W)
def forced_in_body(x, w):
    def body(carry, _):
        row_sums = carry.sum(1)
        h = carry * 3 + 1
        sums = double(h)
        return see(h, sums), (row_sums, sums)

    carry, (row_sums, sums) = jax.lax.scan(body, x @ w, None, length=3)
    return {"carry": carry, "row_sums": row_sums, "sums": sums}


@CASES.add(X, W)
def single_iteration(x, w):
    def body(carry, _):
        row_sums = carry.sum(1)  # of x @ w: there is no previous iteration
        h = carry * 3 + 1
        sums = double(h)
        return see(h, sums), (row_sums, sums)

    carry, (row_sums, sums) = jax.lax.scan(body, x @ w, None, length=1)
    return {"carry": carry, "row_sums": row_sums, "sums": sums}


@CASES.add(X, W)
def single_iteration_missing(x, w):
    def body(carry, _):
        h = carry * 3 + 1
        sums = double(h)
        with jax.named_scope("half"):
            half = h * 0.5
        return carry, (half, sums)

    _, (half, sums) = jax.lax.scan(body, x @ w, None, length=1)
    return {"half": half, "sums": sums}


@CASES.add(X, W)
def unrolled(x, w):
    def body(carry, _):
        h = carry * 3 + 1
        sums = double(h)
        return see(h, sums), sums

    carry, sums = jax.lax.scan(body, x @ w, None, length=4, unroll=2)
    return {"carry": carry, "sums": sums}


@CASES.add(XB, WB)
def unrolled_missing(x, w):
    def body(total, row):
        h = logits(row[None], w)
        sums = double(h)
        return total + miss(h, w).sum(), see(h, sums)

    total, seen = jax.lax.scan(body, jnp.float32(0), x, unroll=2)
    return {"total": total, "seen": seen}


@CASES.add(X, W)
def nested(x, w):
    def outer(carry, row):
        def inner(carry, step):
            h = (row[None] + carry) @ w + step
            sums = double(h)
            return carry + see(h, sums).sum() * 0.01, (sums, see(h, sums))

        return jax.lax.scan(inner, carry, jnp.arange(3.0))

    carry, (sums, seen) = jax.lax.scan(outer, 0.0, x)
    return {"carry": carry, "sums": sums, "seen": seen}


@CASES.add(XB, WB)
def nested_missing(x, w):
    def outer(carry, row):
        def inner(carry, step):
            h = logits((row[None] + carry.astype(row.dtype)), w)
            sums = double(h)
            return carry + miss(h, w).sum() * 0.01 + step, (sums, see(h, sums))

        return jax.lax.scan(inner, carry, jnp.arange(3.0))

    carry, (sums, seen) = jax.lax.scan(outer, jnp.float32(0), x)
    return {"carry": carry, "sums": sums, "seen": seen}


@CASES.add(X, W)
def while_loop(x, w):
    def body(state):
        step, h, total = state
        h = h + 1
        sums = double(h)
        return step + 1, see(h, sums), total + sums

    step, h, total = jax.lax.while_loop(lambda state: state[2].sum() < 10, body, (0, x @ w, jnp.zeros(8)))
    return {"h": h, "total": total, "step": step}


@CASES.add(X, W)
def perhaps_no_iteration(x, w):
    h = x @ w
    sums = double(h)
    step, h = jax.lax.while_loop(
        lambda state: state[0] < x[0, 0], lambda state: (state[0] + 1, x @ w + 1), (0.0, see(h, sums))
    )
    return {"h": h, "step": step}


@CASES.add(X, W)
def unread_state(x, w):
    h = x @ w
    sums = double(h)
    last, _ = jax.lax.scan(lambda _, row: (jnp.cos(jnp.outer(x[:, 0], row)), None), h * 3, w)
    return {"last": last, "sums": sums}


def double_three_times(h):
    return jax.lax.fori_loop(0, 3, lambda _, total: total + double(h), jnp.zeros(h.shape[0]))


@CASES.add(X, W)
def equal_loops(x, w):
    y = x @ w
    first = double_three_times(y)
    z = (y + 0 * first[:, None]) @ w.T @ w
    second = double_three_times(z)
    return {"first": first, "second": second, "z": z + 0 * second[:, None]}


@CASES.add(X, W)
def equal_branches(x, w):
    def double_if(h):
        return jax.lax.cond(h[0, 0] > 0, lambda: double(h) * 3, lambda: jnp.zeros(h.shape[0]))

    y = x @ w
    first = double_if(y)
    z = (y + 0 * first[:, None]) @ w.T @ w
    second = double_if(z)
    return {"first": first, "second": second, "z": z + 0 * second[:, None]}
