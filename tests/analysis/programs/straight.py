"""Programs without loops or branches."""

import jax
import jax.numpy as jnp
import numpy as np
from doubling_kernel import WB, XB, Cases, H, W, X, double, double_declared, logits, miss, see, triple

from ligerdiag import Arg

CASES = Cases()


@CASES.add(X, W)
def clean(x, w):
    return {"product": jnp.tanh(x @ w), "sum": x.sum()}


@CASES.add(X, W)
def declared(x, w):
    doubled, sums = double_declared(x @ w)
    return {"sums": sums, "back": doubled @ w.T}


@CASES.add(X, W)
def readers(x, w):
    h = x @ w
    with jax.named_scope("early"):
        early = (h + 1).max(1)
    sums = double(h)
    with jax.named_scope("late"):
        late = jnp.tanh(h).sum(0)
    with jax.named_scope("back"):
        back = h @ w.T
    return {"early": early, "late": late, "back": back, "sums": sums, "seen": see(h, sums)}


@CASES.add(XB, WB)
def mixed(x, w):
    h = logits(x, w)
    sums = double(h)
    return {"missed": miss(h, w), "seen": see(h, sums), "norm": miss(h, w).sum() + see(h, sums).sum()}


@CASES.add(XB, WB)
def mixed_inner_jit(x, w):
    h = logits(x, w)
    sums = jax.jit(double)(h)
    return {"seen": see(h, sums), "norm": miss(h, w).sum() + see(h, sums).sum()}


@CASES.add(XB, WB)
def mixed_with_original(x, w):
    h = logits(x, w)
    largest = h.max()
    sums = double(h)
    return {"norm": (miss(h, w).sum() + see(h, sums).sum()) * largest}


@CASES.add(XB, WB)
def multi_output_fusion(x, w):
    h = logits(x, w)
    sums = double(h)
    return {"seen": see(h, sums), "sum": see(h, sums).sum(1), "sums": jnp.tanh(sums)}


@CASES.add(X, W)
def same_value_twice(x, w):
    h = x @ w
    return {"sums": double(h), "one": h, "other": h}


@CASES.add(X, W)
def two_kernels(x, w):
    h = x @ w
    sums = double(h)
    maxima = triple(h)
    return {"sums": sums, "maxima": maxima, "seen": see(h, sums * maxima)}


@CASES.add(X, W)
def same_kernel_twice(x, w):
    h = x @ w
    return {"first": double(h), "second": double(h), "h": h}


@CASES.add(H)
def entry_parameter(x):
    sums = double(x)
    with jax.named_scope("late"):
        late = x.sum(0)
    return {"x": x, "sums": sums, "late": late}


@CASES.add(Arg(shape=(8, 32), donate=True))
def donated_parameter(x):
    sums = double(x)
    return {"x": x, "sums": sums}


@CASES.add(Arg(shape=(8, 32), donate=True))
def donated_and_added(x):
    sums = double(x)
    return {"x": x + sums[:, None], "sums": sums}


@CASES.add(X, W)
def folded_constant(x, w):
    zeros = jnp.zeros((8, 32))
    sums = double(zeros)
    return {"one": zeros + 1, "sums": sums, "product": x @ w}


@CASES.add(X, W)
def shared_zeros(x, w):
    first, second = jnp.zeros((8, 32)), jnp.zeros((8, 32))
    one = double(first)
    return {"first": first, "second": second, "product": x @ w, "one": one}


@CASES.add(H)
def literal_operand(x):
    table = jnp.asarray(np.arange(256, dtype=np.float32).reshape(8, 32))
    sums = double(table)
    return {"sums": sums, "seen": see(table, sums) + x}


@CASES.add(X, W)
def reshaped_operand(x, w):
    h = x @ w
    sums = double(h.reshape(16, 16))
    with jax.named_scope("late"):
        late = h.max(0)
    return {"sums": sums, "late": late, "forced": h * sums[:8, None]}


@CASES.add(X, W)
def sliced_operand(x, w):
    h = x @ w
    sums = double(h[4:])
    return {"sums": sums, "whole": h * sums.sum()}


@CASES.add(X, W)
def barrier(x, w):
    h = x @ w
    h, sums = jax.lax.optimization_barrier((h, double(h)))
    return {"sums": sums, "back": h @ w.T}


@CASES.add(X, W)
def recomputed(x, w):
    h = jnp.tanh(x @ w)
    sums = double(h)
    again = jnp.tanh(x @ w)  # merged with h, whose old contents are lost once the kernel has run
    return {"sums": sums, "again": again * sums[:, None]}


@CASES.add(X, W)
def recomputed_by_luck(x, w):
    h = jnp.tanh(x @ w)
    sums = double(h)
    return {"sums": sums, "again": jnp.tanh(x @ w).sum() + see(h, sums).sum()}


@CASES.add(X, X, W)
def merged_products(x, y, w):
    first, second = x @ w, y @ w
    sums, maxima = double(first), triple(second)
    return {"first": see(first, sums), "second": see(second, maxima)}


@CASES.add(XB, WB)
def merged_readers(x, w):
    h = logits(x, w)
    sums = double(h)
    return {"missed": miss(h, w), "seen": miss(see(h, sums), w)}


@CASES.add(X, W)
def merged_calls(x, w):
    h = x @ w
    first = double(h)
    seen = see(h, first)
    second = double(h)
    return {"norm": seen.sum() + second.sum(), "first": first}


@jax.custom_vjp
def row_sums(h):
    return double(h)


def row_sums_forward(h):
    return double(h), h


def row_sums_backward(h, cotangent):
    return (cotangent[:, None] * h,)


row_sums.defvjp(row_sums_forward, row_sums_backward)


@CASES.add(H)
def residual_beside_new(h):
    # the derivative reads the doubled rows by the rule of row_sums, and the old rows by that of exp
    loss, gradient = jax.value_and_grad(lambda h: (row_sums(jnp.exp(h)) ** 2).sum())(h)
    return {"loss": loss, "gradient": gradient}


@CASES.add(X, W)
def joined_and_split(x, w):
    h, g = x @ w, jnp.cos(x @ (2 * w))
    sums = double(h)
    both = jnp.tanh(jnp.concatenate([h, g])) @ w.T
    return {"sums": sums, "of_h": both[: len(h)], "of_g": both[len(h) :]}
