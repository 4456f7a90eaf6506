"""A Ref that a scan stacks, or that holds a slice: XLA's dynamic-slice fusion loses the kernel's write.

`ligerdiag check docs/reports/dynamic_slice_fusion.py`. By itself, on a Hopper GPU, it prints how far each result is from
2 * sin(x).
"""

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu

from ligerdiag import Arg, Case


def double_kernel(x_ref, plus_ref):
    x = x_ref[...]
    plus_ref[...] = x + 1
    x_ref[...] = 2 * x


def double(x):
    ref = jax.new_ref(x)
    plus = plgpu.kernel(double_kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))(ref)
    return plus, jax.freeze(ref)


def stacked(rows):
    def body(total, row):
        plus, doubled = double(jnp.sin(row))
        return total + plus.sum(), doubled

    _, doubled = jax.lax.scan(body, 0.0, rows)
    return {"doubled": doubled}


def halves(rows):
    h = jnp.sin(rows.reshape(-1))
    half = h.size // 2
    return {"doubled": jnp.concatenate([double(h[:half])[1], double(h[half:])[1]])}


ARGS = (Arg(shape=(4, 128)),)
CASES = (Case(name="stacked", function=stacked, args=ARGS), Case(name="halves", function=halves, args=ARGS))

if __name__ == "__main__":
    x = jax.random.normal(jax.random.key(0), (4, 128))
    for function in (stacked, halves):
        found, right = jax.jit(function)(x)["doubled"].reshape(-1), 2 * jnp.sin(x).reshape(-1)
        print(function.__name__, jnp.linalg.norm(found - right) / jnp.linalg.norm(right))
