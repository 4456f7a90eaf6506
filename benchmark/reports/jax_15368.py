"""A program that was ported from `pmap` to `shard_map` warns that its donated argument cannot be used.

Structure: four devices; a `shard_map` exchanges the borders of slabs with the neighbours and returns the slabs. The
argument is donated, but nothing says how it is sharded, so each device has all of it.

The right answer: the argument is 64 KiB on each device and the output's slab 16 KiB: the donation is void because of the
sharding. The cured twin passes the argument in sharded like the output.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

DEVICES = 4


def exchange(x):
    left = jax.lax.ppermute(x[:1], "x", [((i + 1) % DEVICES, i) for i in range(DEVICES)])
    right = jax.lax.ppermute(x[-1:], "x", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
    return x + left + right  # at: sum


def step(x):
    rows = jax.P("x")
    return {"x": jax.shard_map(exchange, in_specs=rows, out_specs=rows, check_vma=False)(x)}  # at: map


MESH = {"x": DEVICES}
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/15368",
    year=2023,
    versions="jax 0.4.8, GPU",
    kind=Kind.VOID_DONATION,
    reported="with jit and shard_map the donated buffer is not usable, although it was with pmap",
    finds=Wrong(at=("sum", "map")),
)
BAD = Case(name="jax_15368", params=("bad",), function=step, args=(Arg(shape=(128, 128), donate=True),), mesh=MESH)
CURED = Case(
    name="jax_15368",
    params=("cured",),
    function=step,
    args=(Arg(shape=(128, 128), donate=True, partition=("x",)),),
    mesh=MESH,
)
CASES = (BAD, CURED)
