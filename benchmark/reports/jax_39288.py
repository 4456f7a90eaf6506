"""Refs that are batched along another axis than the first fail in several ways, or hold other values.

Structure: a scan over the rows of a Ref adds one to each and returns them, under vmap with in_axes=1; the same program
with immutable arrays is right.

The right answer: each row of each batch has one added: `rows` = x + 1, with the batch first.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def bump(x):
    def add_one(_, row):
        row[...] += 1.0
        return 0, row[...]

    ref = jax.new_ref(jnp.sin(x))
    return {"rows": jax.vmap(lambda one: jax.lax.scan(add_one, 0, one)[1], in_axes=1)(ref)}


def bump_plainly(x):
    return {"rows": jnp.swapaxes(jnp.sin(x) + 1.0, 0, 1)}


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/39288",
    year=2026,
    versions="jax 0.11.0",
    kind=Kind.MOVED_BY_JAX,
    reported="vmap over a Ref with in_axes other than 0 raises errors, or mixes up axes",
    finds=Wrong(outputs=("rows",)),
)
ARGS = (Arg(shape=(4, 3, 8)),)
BAD = Case(name="jax_39288", params=("bad",), function=bump, args=ARGS, reference=bump_plainly)
CURED = Case(name="jax_39288", params=("cured",), function=bump_plainly, args=ARGS)
CASES = (BAD, CURED)
