"""Copies that the author makes of an array that a kernel overwrites; JAX replaces them by the array itself."""

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from doubling_kernel import Cases, W, X, double

from ligerdiag import Arg

CASES = Cases()


@triton.jit
def step_kernel(p_ptr, gradient_ptr, norm_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    gradient = tl.load(gradient_ptr + offsets)
    tl.store(norm_ptr + row, tl.sum(gradient * gradient))
    tl.store(p_ptr + offsets, tl.load(p_ptr + offsets) - 0.1 * gradient)


def step(p, gradient):
    """Returns the squared norms of the gradient's rows; a hidden write replaces p by its next value."""
    rows, columns = p.shape
    out = jax.ShapeDtypeStruct((rows,), "float32")
    return jax_triton.triton_call(p, gradient, kernel=step_kernel, out_shape=out, grid=(rows,), COLUMNS=columns)


def overwrite_one(x, w):
    h = x @ w
    return {"overwritten": 2 * h @ w.T, "other": h @ w.T, "sums": h.sum(1)}


@CASES.add(X, W, reference=overwrite_one)
def copy_overwritten(x, w):
    h = x @ w
    copy = jnp.copy(h)
    sums = double(copy)
    return {"overwritten": copy @ w.T, "other": h @ w.T, "sums": sums}


@CASES.add(X, W, reference=overwrite_one)
def copy_kept(x, w):
    h = x @ w
    copy = jnp.array(h)
    sums = double(h)
    return {"overwritten": h @ w.T, "other": copy @ w.T, "sums": sums}


def overwrite_all_but_two(x, w):
    h = x @ w
    return {"overwritten": 2 * h @ w.T, "placed": h @ w.T, "ref": h.T @ h, "sums": h.sum(1)}


@CASES.add(X, W, reference=overwrite_all_but_two)
def copies_by_other_names(x, w):
    h = x @ w
    placed = jax.device_put(h, may_alias=False)
    ref = jax.new_ref(h)
    sums = double(h)
    return {"overwritten": h @ w.T, "placed": placed @ w.T, "ref": ref[...].T @ ref[...], "sums": sums}


def overwrite_beside_refs(x, w):
    h, g = x @ w, jnp.abs(x) @ jnp.abs(w)
    return {"overwritten": 2 * h @ w.T + 2 * g @ w.T, "assigned": h @ w.T, "read": g.T @ g, "sums": h.sum(1) + g.sum(1)}


@CASES.add(X, W, reference=overwrite_beside_refs)
def copies_in_refs(x, w):
    h = x @ w
    assigned = jax.new_ref(0 * h)
    assigned[...] = h
    read = jax.new_ref(jnp.abs(x) @ jnp.abs(w))
    g = read[...]
    sums = double(h) + double(g)
    return {
        "overwritten": h @ w.T + g @ w.T,
        "assigned": assigned[...] @ w.T,
        "read": read[...].T @ read[...],
        "sums": sums,
    }


@CASES.add(X, W, reference=lambda x, w: {"sums": (x @ w).sum(1), "gradient": x.T @ jnp.ones((8, 32))})
def copy_of_a_derived_value(x, w):
    def loss(w):
        h = x @ w
        return jnp.copy(h).sum(), double(jnp.copy(jax.lax.stop_gradient(h)))

    gradient, sums = jax.grad(loss, has_aux=True)(w)
    return {"sums": sums, "gradient": gradient}


def compute_gradient(cast, x):
    loss = jax.grad(lambda q: jnp.sin((x.astype(jnp.bfloat16) @ q).astype(jnp.float32)).sum())
    return loss(cast).astype(jnp.float32)


def step_in_full(p, x):
    cast = p.astype(jnp.bfloat16)
    gradient = compute_gradient(cast, x)
    new = p - 0.1 * gradient
    return {"new": new, "norm": (gradient**2).sum(1), "cast": cast, "new_cast": new.astype(jnp.bfloat16)}


@CASES.add(Arg(shape=(16, 32), donate=True), X, reference=step_in_full)
def cast_before_and_after_a_step(p, x):
    """XLA makes one cast of both, after the step, although the second cast depends on the first through the kernel."""
    cast = p.astype(jnp.bfloat16)
    norm = step(p, compute_gradient(cast, x))
    return {"new": p, "norm": norm, "cast": cast, "new_cast": p.astype(jnp.bfloat16)}


def overwrite_beside_results(x, w):
    h = x @ w
    return {"overwritten": 2 * h @ w.T, "power": h @ w.T, "reduced": h.T @ h, "chosen": jnp.sin(h), "sums": h.sum(1)}


@CASES.add(X, W, reference=overwrite_beside_results)
def results_that_equal_their_operand(x, w):
    h = x @ w
    power, reduced = h**1, jnp.sum(h, axis=())
    chosen = jax.lax.cond(h.ndim == 2, lambda h: h, lambda h: 2 * h, h)
    sums = double(h)
    return {
        "overwritten": h @ w.T,
        "power": power @ w.T,
        "reduced": reduced.T @ reduced,
        "chosen": jnp.sin(chosen),
        "sums": sums,
    }


@CASES.add(X, W, reference=lambda x, w: {"overwritten": 2 * (x @ w) @ w.T, "sums": (x @ w).sum(1)})
def kernel_in_a_branch_that_is_always_taken(x, w):
    h = x @ w
    sums, h = jax.lax.cond(h.ndim == 2, lambda h: (double(h), h), lambda h: (h.sum(1), 2 * h), h)
    return {"overwritten": h @ w.T, "sums": sums}


@CASES.add(X, W, mesh={"x": 1})
def exchange_on_one_device(x, w):
    def exchange(x, w):
        h = x @ w
        exchanged = jax.lax.all_to_all(h, "x", 0, 0, tiled=True)
        sums = double(h)
        return {"overwritten": h @ w.T, "exchanged": exchanged @ w.T, "sums": sums}

    spec = jax.sharding.PartitionSpec()
    return jax.shard_map(exchange, in_specs=spec, out_specs=spec, check_vma=False)(x, w)
