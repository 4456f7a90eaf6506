"""A static slice of a sharded array is overwritten, and each device gathers the whole array for it.

Structure: four devices; the rows of a donated array are split over them, and the first three rows are set.

The right answer: only the first device owns these rows, so it alone has to write three rows of 512 bytes, and no other data
has to move. Gathering the array brings 256 KiB to each device, of which it keeps a quarter: the update is the line. The
cured twin updates within a `shard_map`, where each device looks after its own rows.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

ROWS, COLUMNS, DEVICES = 512, 128, 4


def update(x, rows):
    return {"x": x.at[0:3].set(rows)}  # at: update


def update_own(x, rows):
    def on_each(x, rows):
        number = jax.lax.axis_index("x") * (ROWS // DEVICES) + jnp.arange(ROWS // DEVICES)
        padded = jnp.pad(rows, ((0, ROWS // DEVICES - 3), (0, 0)))
        return jnp.where((number < 3)[:, None], padded, x)

    split = jax.P("x", None)
    return {"x": jax.shard_map(on_each, in_specs=(split, jax.P()), out_specs=split, check_vma=False)(x, rows)}


ARGS = (Arg(shape=(ROWS, COLUMNS), donate=True, partition=("x",)), Arg(shape=(3, COLUMNS)))
MESH = {"x": DEVICES}
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/23052",
    year=2024,
    versions="jax 0.4.31 to 0.4.34, GPU",
    kind=Kind.SILENT_COPY,
    reported="setting a static slice of a sharded matrix gathers the matrix on all devices",
    finds=Wrong(at=("update",)),
)
BAD = Case(name="jax_23052", params=("bad",), function=update, args=ARGS, mesh=MESH)
CURED = Case(name="jax_23052", params=("cured",), function=update_own, args=ARGS, mesh=MESH)
CASES = (BAD, CURED)
