"""Programs over a mesh of four devices."""

import jax
from doubling_kernel import Cases, double, see
from jax.sharding import PartitionSpec as P

from ligerdiag import Arg

ROWS, SHARED = Arg(shape=(8, 16), partition=("x",)), Arg(shape=(16, 32))
COLUMNS = Arg(shape=(16, 32), partition=(None, "x"))
CASES = Cases()


@CASES.add(ROWS, COLUMNS, mesh={"x": 4})
def gathered(x, w):
    h = x @ w
    sums = double(h)
    return {"sums": sums, "seen": see(h, sums), "back": h @ w.T}


def over_rows(function, count):
    shard_map = jax.shard_map
    return shard_map(function, in_specs=(P("x"), P()), out_specs=(P("x"), *[P()] * count), check_vma=False)


@CASES.add(ROWS, SHARED, mesh={"x": 4})
def shard_mapped(x, w):
    def local(x, w):
        h = x @ w
        sums = double(h)
        return sums, jax.lax.psum(x.T @ see(h, sums), "x")

    sums, gradient = over_rows(local, 1)(x, w)
    return {"sums": sums, "gradient": gradient}


@CASES.add(ROWS, SHARED, mesh={"x": 4})
def combined_by_concatenation(x, w):
    def local(x, w):
        h = x @ w
        sums = double(h)
        return sums, jax.lax.psum(x.T @ see(h, sums), "x"), jax.lax.psum(x.sum(0), "x")

    sums, gradient, total = over_rows(local, 2)(x, w)
    return {"sums": sums, "gradient": gradient, "total": total}


@CASES.add(ROWS, SHARED, mesh={"x": 4})
def combined_reduce_scatter(x, w):
    def local(x, w):
        h = x @ w
        sums = double(h)
        with jax.named_scope("gradient"):
            gradient = x.T @ h
        gradient = jax.lax.psum_scatter(gradient, "x", tiled=True)
        return sums, gradient, jax.lax.psum_scatter(w * x.sum(), "x", tiled=True)

    sums, gradient, total = jax.shard_map(
        local, in_specs=(P("x"), P()), out_specs=(P("x"), P("x"), P("x")), check_vma=False
    )(x, w)
    return {"sums": sums, "gradient": gradient, "total": total}
