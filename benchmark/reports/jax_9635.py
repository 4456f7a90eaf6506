"""One array is passed twice to a function that donates its first argument; the call hangs, or fails today.

Structure: `f(x, x)` with the first argument donated.

The right answer: the bytes that the donation gives away are those of the second argument, which the program still reads, so
the donation cannot be used as it stands: today's runtime refuses the call. The call's arguments are the line. The cured twin
passes two arrays.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Case


def add(x, y):
    return {"sum": x + y}  # at: sum_line


X, Y = jnp.ones((128, 64)), jnp.ones((128, 64))
DONATING = jax.jit(add, donate_argnums=(0,))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/9635",
    year=2022,
    versions="jax 0.3.0, GPU and TPU",
    kind=Kind.VOID_DONATION,
    reported="a function whose donated argument is passed twice hangs",
    finds=Wrong(at=("sum_line", "call")),
    revised="the program passed NumPy arrays, which JAX copies for each argument, so that it ran; now it passes JAX arrays",
)
BAD = Case(name="jax_9635", params=("bad",), function=DONATING, args=(X, X))  # at: call
CURED = Case(name="jax_9635", params=("cured",), function=DONATING, args=(X, Y))
CASES = (BAD, CURED)
