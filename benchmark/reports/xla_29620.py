"""A sum over products of gathered complex arrays is no longer one fusion, and a large temporary appears.

Structure: rows of three arrays are gathered by two index arrays, multiplied with a complex exponential, and summed over the
first axis.

The right answer: each element of the result needs single elements of the arguments, so one fusion computes the sum without
any temporary. If the summands, 1 MiB, are stored first, the program needs that much more than the same sum in a loop, which
is the cured twin; the line of the sum, or of the phase in it, is to blame.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw

L, M, N, K = 128, 32, 32, 32


def contract(a, b, c, first, second):
    phase = jnp.exp(1.0j * (c[:, second] - c[:, first]))  # at: phase_line
    return {"sum": jnp.sum(a[:, first] * jnp.conjugate(b[:, second]) * phase, axis=0)}  # at: sum_line


def contract_looped(a, b, c, first, second):
    def body(i, total):
        phase = jnp.exp(1.0j * (c[i, second] - c[i, first]))
        return total + a[i, first] * jnp.conjugate(b[i, second]) * phase

    return {"sum": jax.lax.fori_loop(0, L, body, jnp.zeros((K, N), "complex64"))}


INDEX = Arg(shape=(K,), dtype="int32", draw=Draw(kind="randint", low=0, high=M))
ARGS = (*(Arg(shape=(L, M, N)) for _ in range(3)), INDEX, INDEX)
REPORT = Report(
    link="https://github.com/openxla/xla/issues/29620",
    year=2025,
    versions="jax after 0.4.36, GH200",
    kind=Kind.MEMORY_DRIFT,
    reported="a sum of gathered products stores its summands since an upgrade, and needs far more memory",
    finds=Wrong(at=("phase_line", "sum_line")),
)
BAD = Case(name="xla_29620", params=("bad",), function=contract, args=ARGS)
CURED = Case(name="xla_29620", params=("cured",), function=contract_looped, args=ARGS)
CASES = (BAD, CURED)
