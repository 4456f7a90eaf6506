"""Padded pieces of sharded arrays (jax issue 39100): forms in which XLA updates one array in place twice, and others."""

import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


def build(devices, rows, low, high, dtype="float32", columns=0, mode="plain"):
    piece = low + rows + high
    pad = (low, high) if not columns else ((low, high), (0, 0))

    def spread(v):
        return jnp.concatenate([jnp.pad(v[rows * i : rows * (i + 1)], pad) for i in range(devices)])

    def gather(v):
        return jnp.concatenate([v[piece * i + low : piece * i + low + rows] for i in range(devices)])

    def plain(x, z):
        return {"sum": gather(spread(x) * z) + gather(spread(gather(z)))}

    def product(x, z):
        return {"out": gather(spread(x) - z) * jnp.tanh(gather(spread(gather(z)))), "z": z * 2}

    def grad(x, z):
        return jax.grad(lambda x, z: jnp.sum(plain(x, z)["sum"] ** 2), argnums=(0, 1))(x, z)

    def scanned(x, z):
        def body(c, _):
            return plain(c, z)["sum"], c.sum()

        return jax.lax.scan(body, x, None, length=3)

    def jitted(x, z):
        return jax.jit(lambda a, b: plain(a, b)["sum"])(x, z)

    f = {"plain": plain, "product": product, "grad": grad, "scanned": scanned, "jitted": jitted}[mode]
    tail = (columns,) if columns else ()
    args = tuple(
        Arg(shape=(devices * n, *tail), dtype=dtype, partition=("x", *(None for _ in tail))) for n in (rows, piece)
    )
    return Case(
        name=f"{mode}-{devices}-{rows}-{low}-{high}-{dtype}-{columns}", function=f, args=args, mesh={"x": devices}
    )


CASES = (
    build(4, 2, 1, 2),
    build(4, 2, 1, 2, "bfloat16"),
    build(4, 2, 1, 2, columns=8),
    build(4, 4, 2, 2),
    build(4, 3, 1, 1),
    build(8, 2, 1, 2),
    build(4, 2, 1, 2, mode="product"),
    build(4, 2, 1, 2, mode="grad"),
    build(4, 2, 1, 2, mode="scanned"),
    build(4, 2, 1, 2, mode="jitted"),
    build(3, 2, 1, 2),
    build(4, 8, 4, 4),
)
