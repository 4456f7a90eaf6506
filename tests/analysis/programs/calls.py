"""Programs with a kernel in a branch, in an inner jit or under autodiff."""

import jax
import jax.numpy as jnp
from doubling_kernel import WB, XB, Cases, H, W, X, double, logits, miss, see

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
    def both(x):
        h = logits(x, w)
        sums = double(h)
        return see(h, sums).sum() + miss(h, w).sum(), see(h, sums)

    norm, seen = jax.lax.cond(x[0, 0] > 0, both, lambda x: (logits(x, w).sum(), logits(x, w)), x)
    return {"norm": norm, "seen": seen}


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
        y = (h * v).sum()  # its derivative by v is h, from here
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


def with_own_rule(rule):
    """Returns the kernel's sums, with a backward rule that is meant to read what the kernel leaves in h."""

    @jax.custom_vjp
    def head(h):
        return double(h).sum()

    head.defvjp(lambda h: (double(h).sum(), h), lambda h, gradient: (rule(h) * gradient,))
    return head


@CASES.add(X, W)
def own_backward_rule(x, w):
    def rule(h):
        with jax.named_scope("backward"):
            return jnp.sin(h)

    head = with_own_rule(rule)
    loss, gradient = jax.value_and_grad(lambda x: head(x @ w))(x)
    return {"loss": loss, "gradient": gradient}


@CASES.add(XB, WB)
def own_backward_rule_missing(x, w):
    head = with_own_rule(lambda h: h)
    loss, gradient = jax.value_and_grad(lambda x: head(logits(x, w)))(x)
    return {"loss": loss, "gradient": gradient.astype(jnp.float32)}


@CASES.add(X, W)
def branch_in_the_other_order(x, w):
    h = x @ w
    found = jax.lax.cond(x[0, 0] > 0, lambda h: h.max(1), double, h)  # false first: the kernel's branch
    return {"found": found}


@CASES.add(X, W, H)
def derivative_behind_the_kernel(x, w, v):
    def loss(v):
        h = x @ w
        sums = double(h)
        with jax.named_scope("behind"):
            product = h * v  # its derivative by v is h, as the kernel left it
        return product.sum(), sums

    (y, sums), gradient = jax.value_and_grad(loss, has_aux=True)(v)
    return {"y": y, "sums": sums, "gradient": gradient * 2 + sums[:, None]}
