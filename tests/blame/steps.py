"""Steps of several kernels with hidden writes, one of which makes an output wrong.

A reader misses the original purely by data flow: XLA merges it with an equal operation from before the kernel, or it
must wait for the kernel's result. A reader comes too early in the same way: equal operations before and after a kernel
are merged, and the kernel waits for the result.
"""

import inspect
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from jax.sharding import PartitionSpec as P

from ligerdiag.model.case import Arg, Case, Draw

SIZE = 32
_OUT = "out_type" if "out_type" in inspect.signature(jax_triton.triton_call).parameters else "out_shape"


@triton.jit
def loss_kernel(logits_ptr, labels_ptr, loss_ptr, N: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    x = tl.load(logits_ptr + row * N + at)
    e = tl.exp(x - tl.max(x))
    hit = at == tl.load(labels_ptr + row)
    tl.store(loss_ptr + row, tl.log(tl.sum(e)) + tl.max(x) - tl.sum(tl.where(hit, x, 0.0)))
    tl.store(logits_ptr + row * N + at, e / tl.sum(e) - tl.where(hit, 1.0, 0.0))


@triton.jit
def momentum_kernel(p_ptr, m_ptr, g_ptr, norm_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    m = 0.9 * tl.load(m_ptr + at) + tl.load(g_ptr + at)
    tl.store(p_ptr + at, tl.load(p_ptr + at) - 0.1 * m)
    tl.store(m_ptr + at, m)
    tl.store(norm_ptr + tl.program_id(0), tl.sum(m * m))


@triton.jit
def append_kernel(k_ptr, v_ptr, new_k_ptr, new_v_ptr, sum_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    k, v = tl.load(new_k_ptr + at), tl.load(new_v_ptr + at)
    tl.store(k_ptr + at, tl.load(k_ptr + at) + k)
    tl.store(v_ptr + at, tl.load(v_ptr + at) + v)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(k * v))


@triton.jit
def norm_kernel(x_ptr, scale_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    scale = 1.0 / tl.sqrt(tl.sum(x * x) / N + 1e-3)
    tl.store(x_ptr + at, x * scale)
    tl.store(scale_ptr + tl.program_id(0), scale)


@triton.jit
def residual_kernel(x_ptr, y_ptr, sum_ptr, N: tl.constexpr):
    """Adds half of y to x."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at) + 0.5 * tl.load(y_ptr + at)
    tl.store(x_ptr + at, x)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def gate_kernel(x_ptr, y_ptr, sum_ptr, N: tl.constexpr):
    """Subtracts half of x, and adds y."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = 0.5 * tl.load(x_ptr + at) + tl.load(y_ptr + at)
    tl.store(x_ptr + at, x)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x))


def call(kernel: Any, *operands: jax.Array) -> jax.Array:
    """Returns one number for each row."""
    rows, size = operands[0].shape
    out = {_OUT: jax.ShapeDtypeStruct((rows,), jnp.float32)}
    return jax_triton.triton_call(*operands, kernel=kernel, grid=(rows,), N=size, **out)


loss, momentum, append = partial(call, loss_kernel), partial(call, momentum_kernel), partial(call, append_kernel)
norm, residual, gate = partial(call, norm_kernel), partial(call, residual_kernel), partial(call, gate_kernel)


def wide(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float32)


def late(x: jax.Array, sums: jax.Array) -> jax.Array:
    """Needs x and the result of a kernel."""
    return jnp.tanh(x) * (1.0 + sums[:, None])


def optimizer_too_early(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """`late` needs the weight from before the optimizer's step, whose gradient the loss has computed."""
    logits = x @ m
    total = loss(logits, labels)
    norms = momentum(wide(w), m + total[:, None], logits)
    return {"late": late(wide(w), norms), "loss": total.sum()}


def weight_too_old(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """`early` needs the product with the weight after the optimizer's step, and XLA computes only one of the two
    products.
    """
    logits = x @ m
    total = loss(logits, labels)
    w = w * 2.0
    before = w @ m
    norms = momentum(w, before + total[:, None], logits)
    return {"early": w @ m, "norms": norms}


def moment_too_old(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """The same for the momentum, the second operand that the optimizer overwrites."""
    logits = x @ m
    total = loss(logits, labels)
    moment = w * 2.0
    before = moment @ m
    norms = momentum(before + total[:, None], moment, logits)
    return {"early": moment @ m, "norms": norms}


def keys_too_new(k: Any, v: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """`late` needs the keys from before the append, but waits for the result of the norm."""
    h = x * 2.0
    scales = norm(h)
    sums = append(wide(k), v + scales[:, None], h, h)
    return {"late": late(wide(k), sums), "scales": scales}


def values_too_new(k: Any, v: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """The same for the values, the other operand."""
    h = x * 2.0
    scales = norm(h)
    sums = append(v + scales[:, None], wide(k), h, h)
    return {"late": late(wide(k), sums), "scales": scales}


def norm_then_loss(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """`second` needs the logits from before the loss; both outputs need the result of the norm, and get it."""
    h = x @ m
    scales = norm(h)
    both = h @ m + scales[:, None]
    first = loss(both, labels)
    second = jnp.tanh(h @ m + scales[:, None]) * first[:, None]
    return {"second": second, "scales": scales}


def two_losses(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """The gate gets the result of the loss on one of the casts; its own write is right."""
    first = loss(wide(w), labels)
    second = gate(wide(w), m + first[:, None])
    return {"first": first, "second": second}


def chain_too_early(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """`early` needs the last of three links and, through it, the others."""
    a, b, c = x + 1.0, x * 3.0, jnp.exp(m)
    one = norm(a)
    two = residual(b, a + one[:, None])
    before = c @ x
    three = gate(c, b + two[:, None] + before)
    return {"early": c @ x, "sums": one + two + three}


def chain_too_late(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """`late` needs none of the three, and sees the last."""
    a, b, c = x + 1.0, x * 3.0, wide(w)
    one = norm(a)
    two = residual(b, a + one[:, None])
    three = gate(c, b + two[:, None])
    return {"late": late(wide(w), three), "sums": one + two + three}


def chain_broken(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """The residual adds a product with the value from before the norm; all later reads are right."""
    a, b, c = x + 1.0, x * 3.0, jnp.exp(m)
    before = a @ m
    one = norm(a) + before.sum(1)
    two = residual(b, a @ m + one[:, None])
    three = gate(c, b + two[:, None])
    return {"last": c + three[:, None], "ones": one}


def scanned(ws: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """In each round the optimizer's step comes too early for `late`."""

    def body(total: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits = x @ m + total
        losses = loss(logits, labels)
        norms = momentum(wide(w), m + losses[:, None], logits)
        return total + 0.01 * losses.sum(), late(wide(w), norms)

    total, lates = jax.lax.scan(body, jnp.float32(0), ws)
    return {"late": lates, "loss": total}


def looped(k: Any, v: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """A decoding loop: `late` needs the keys from before."""

    def body(_: Any, total: jax.Array) -> jax.Array:
        h = x * total.mean()
        scales = norm(h)
        sums = append(wide(k) + total.sum(), v + scales[:, None], h, h)
        return total + late(wide(k) + total.sum(), sums).sum(1)

    return {"late": jax.lax.fori_loop(0, 3, body, jnp.ones(x.shape[0]))}


def branched(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    def step(operands: Any) -> Any:
        w, m, x = operands
        h = jnp.cos(x)
        sums = residual(h, m)
        norms = gate(wide(w), h + sums[:, None])
        return late(wide(w), norms), sums

    late_one, sums = jax.lax.cond(x[0, 0] > -9.0, step, lambda operands: (operands[1], operands[2][0]), (w, m, x))
    return {"late": late_one, "sums": sums}


def sharded(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    @partial(jax.shard_map, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    def step(w: jax.Array, m: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jnp.cos(x)
        sums = residual(h, m)
        norms = gate(wide(w), h + sums[:, None])
        return late(wide(w), norms), sums

    late_one, sums = step(w, m, x)
    return {"late": late_one, "sums": sums}


def each_its_own(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """Four kernels, two of them guilty of one output each."""
    h = x * 2.0
    scales = norm(h)
    logits = h + scales[:, None]
    total = loss(logits, labels)
    norms = momentum(wide(w), m + total[:, None], logits)
    weights = late(wide(w), norms)
    y = jnp.cos(m)
    before = y @ m
    sums = residual(y, before + norms[:, None])
    return {"weights": weights, "early": y @ m + sums[:, None], "scales": scales}


def in_one_output(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """Two kernels guilty of the same output, and the norm, which is innocent."""
    h = x * 2.0
    scales = norm(h)
    norms = momentum(wide(w), m + scales[:, None], h)
    sums = gate(jnp.sqrt(jnp.abs(m)), h + norms[:, None])
    late_one = late(wide(w), norms)
    return {"both": late_one + late(jnp.sqrt(jnp.abs(m)), sums), "scales": scales}


def differentiated(w: Any, m: Any, x: Any, labels: Any) -> dict[str, jax.Array]:
    """The derivative of tanh is computed from its result, which the gate has overwritten. The cotangent comes from the
    loss's result, and the gate waits for it.
    """

    @jax.custom_vjp
    def fused(h: jax.Array) -> jax.Array:
        return loss(h @ m, labels).sum()

    def forward(h: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits = h @ m
        losses = loss(logits, labels)
        return losses.sum(), gate(h, logits + losses[:, None])[:, None] + logits @ m.T

    fused.defvjp(forward, lambda saved, ct: (ct * saved,))
    value, gradient = jax.value_and_grad(lambda x: fused(jnp.tanh(x * 0.3)))(x)
    return {"loss": value, "gradient": gradient}


_SQUARE = Arg(shape=(SIZE, SIZE))
_NARROW = Arg(shape=(SIZE, SIZE), dtype="bfloat16", draw=Draw(seed=1))
_LABELS = Arg(shape=(SIZE,), dtype="int32", draw=Draw(kind="randint", high=SIZE))
_PLAIN = (norm_then_loss, weight_too_old, moment_too_old, chain_too_early, chain_broken, differentiated)
_NARROW_WEIGHT = (
    optimizer_too_early,
    keys_too_new,
    values_too_new,
    two_losses,
    chain_too_late,
    looped,
    branched,
    each_its_own,
    in_one_output,
)

CASES = (
    *(Case(name=one.__name__, function=one, args=(_SQUARE, _SQUARE, _SQUARE, _LABELS)) for one in _PLAIN),
    *(Case(name=one.__name__, function=one, args=(_NARROW, _SQUARE, _SQUARE, _LABELS)) for one in _NARROW_WEIGHT),
    Case(
        name="scanned",
        function=scanned,
        args=(Arg(shape=(3, SIZE, SIZE), dtype="bfloat16"), _SQUARE, _SQUARE, _LABELS),
    ),
    Case(
        name="sharded",
        function=sharded,
        args=(replace(_NARROW, partition=("x",)), *[replace(_SQUARE, partition=("x",))] * 2, _LABELS),
        mesh={"x": 2},
    ),
)
