"""Programs with a kernel in a branch, in an inner jit, under autodiff."""

import jax
import jax.numpy as jnp

from doubling_kernel import XB, WB, Cases, H, W, X, double, logits, miss, see

CASES = Cases()


@CASES.add(X, W)
def branch(x, w):
    h = x @ w
    sums = jax.lax.cond(x[0, 0] > 0, double, lambda h: h.max(1), h)
    with jax.named_scope("late"):
        late = h @ w.T
    return {"sums": sums, "seen": see(h, sums), "late": late}


@CASES.add(XB, WB)
def branch_missing(x, w):
    h = logits(x, w)

    def both(h):
        sums = double(h)
        return see(h, sums).sum() + miss(h, w).sum()

    return {"norm": jax.lax.cond(x[0, 0] > 0, both, lambda h: h.sum(), h)}


@CASES.add(XB, XB, WB)
def inner_jit_twice(x, y, w):
    @jax.jit
    def head(a, w):
        h = logits(a, w)
        sums = double(h)
        return see(h, sums), miss(h, w)

    seen, missed = head(x, w)
    seen_again, missed_again = head(y, w)
    return {"seen": seen, "missed": missed, "cross": seen.sum() + missed_again.sum(), "again": seen_again}


@CASES.add(X, W, H)
def residual(x, w, v):
    def loss(v):
        h = x @ w
        y = (h * v).sum()  # its derivative by v is h, as it was here
        return y, double(h)

    (y, sums), gradient = jax.value_and_grad(loss, has_aux=True)(v)
    return {"y": y, "sums": sums, "gradient": gradient * 2 + sums[:, None]}


@CASES.add(X, W, H)
def residual_inner_jit(x, w, v):
    def loss(v):
        h = x @ w
        y = (h * v).sum()
        return y, jax.jit(double)(h)

    (y, sums), gradient = jax.value_and_grad(loss, has_aux=True)(v)
    return {"y": y, "sums": sums, "gradient": gradient * 2 + sums[:, None]}


@jax.custom_vjp
def head(h):
    return double(h).sum()


def head_forward(h):
    return double(h).sum(), h


def head_backward(h, gradient):
    return (h * gradient,)  # h is meant to be doubled by now: that is what the kernel leaves there


head.defvjp(head_forward, head_backward)


@CASES.add(X, W)
def own_backward_rule(x, w):
    loss, gradient = jax.value_and_grad(lambda x: head(x @ w))(x)
    return {"loss": loss, "gradient": gradient}


@CASES.add(XB, WB)
def own_backward_rule_missing(x, w):
    loss, gradient = jax.value_and_grad(lambda x: head(logits(x, w)))(x)
    return {"loss": loss, "gradient": gradient.astype(jnp.float32)}
