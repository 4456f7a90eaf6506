"""On four GPUs a program without any kernel of its own has silently wrong values.

Structure: an array sharded over four devices is padded piece by piece and put together again, along two chains that are
added; one fusion updates two slices in place, and both results get one buffer.

The right answer: padding and cutting off the padding is the identity, so `sum` = x * rows(z) + rows(z). Two results in
one place at once lose one of them: `sum` has shared bytes, and wrong values.
"""

import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

DEVICES, ROWS, LOW, HIGH = 4, 2, 1, 2
PIECE = LOW + ROWS + HIGH


def pad_pieces(x):
    return jnp.concatenate([jnp.pad(x[ROWS * k : ROWS * (k + 1)], (LOW, HIGH)) for k in range(DEVICES)])


def cut_pieces(x):
    return jnp.concatenate([x[PIECE * k + LOW : PIECE * k + LOW + ROWS] for k in range(DEVICES)])


def add_chains(x, z):
    return {"sum": cut_pieces(pad_pieces(x) * z) + cut_pieces(pad_pieces(cut_pieces(z)))}


def add_plainly(x, z):
    rows = z.reshape(DEVICES, PIECE)[:, LOW : LOW + ROWS].reshape(-1)
    return {"sum": x * rows + rows}


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/39100",
    year=2026,
    versions="jax 0.10, 4 GPUs",
    kind=Kind.SHARED_BYTES,
    reported="a multi-output fusion has two in-place updates in one buffer; only with four devices",
    finds=Wrong(outputs=("sum",), kinds=(Kind.SHARED_BYTES, Kind.MISCOMPILE)),
)
ARGS = (Arg(shape=(8,), partition=("x",)), Arg(shape=(20,), partition=("x",)))
BAD = Case(name="jax_39100", params=("bad",), function=add_chains, args=ARGS, mesh={"x": 4}, reference=add_plainly)
CURED = Case(name="jax_39100", params=("cured",), function=add_plainly, args=ARGS, mesh={"x": 4})
CASES = (BAD, CURED)
