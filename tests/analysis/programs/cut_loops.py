"""Loops of six iterations, as strangers write them, which tests replay whole and cut short."""

import jax
import jax.numpy as jnp
from doubling_kernel import WB, XB, Cases, double, logits, miss, see

CASES = Cases()
TIMES = 6


@CASES.add(XB, WB)
def counted(x, w):
    def body(i, total):
        h = logits(x + i.astype(x.dtype), w)
        sums = double(h)
        return total[0] + miss(h, w), total[1] + see(h, sums)

    missed, seen = jax.lax.fori_loop(0, TIMES, body, (jnp.zeros((8, 16)), jnp.zeros((8, 32))))
    return {"missed": missed, "seen": seen}


@CASES.add(XB, WB)
def of_the_iteration_before(x, w):
    def body(carry, step):
        total, before = carry
        total = total + miss(before, w)  # as the kernel left it in the previous iteration
        h = logits(x * step, w)
        sums = double(h)
        return (total, h), see(h, sums).sum(1)

    carry = jnp.zeros((8, 16)), jnp.zeros((8, 32))
    (total, last), sums = jax.lax.scan(body, carry, jnp.arange(1, TIMES + 1, dtype=x.dtype))
    return {"total": total, "last": last, "sums": sums}


@CASES.add(XB, WB)
def nested(x, w):
    def outer(total, row):
        def inner(total, step):
            h = logits(row[None] * step, w)
            sums = double(h)
            return total + miss(h, w), see(h, sums)

        return jax.lax.scan(inner, total, jnp.arange(1, 4, dtype=x.dtype))

    total, seen = jax.lax.scan(outer, jnp.zeros((1, 16)), x)
    return {"total": total, "seen": seen}


@CASES.add(XB, WB)
def late(x, w):
    def body(total, step):
        h = logits(x + step.astype(x.dtype), w)
        sums = double(h)
        return total + jnp.where(step < TIMES - 1, sums.sum(), miss(h, w)), sums

    total, sums = jax.lax.scan(body, jnp.zeros((8, 16)), jnp.arange(TIMES))
    return {"total": total, "sums": sums}


@CASES.add(XB, WB)
def late_branch(x, w):
    def overwrite(step):
        h = logits(x + step.astype(x.dtype), w)
        sums = double(h)
        return miss(h, w) + sums[:, None]

    def body(total, step):
        added = jax.lax.cond(step < TIMES - 1, lambda step: jnp.full((8, 16), step, jnp.float32), overwrite, step)
        return total + added, step

    total, steps = jax.lax.scan(body, jnp.zeros((8, 16)), jnp.arange(TIMES))
    return {"total": total, "steps": steps}


@CASES.add(XB, WB)
def counted_behind(x, w):
    def body(state):
        i, total = state
        h = logits(x + i.astype(x.dtype), w)
        sums = double(h)
        return i + 1, total + see(h, sums)

    i, seen = jax.lax.while_loop(lambda state: state[0] < TIMES, body, (jnp.int32(0), jnp.zeros((8, 32))))
    return {"seen": seen, "times": i * 10}
