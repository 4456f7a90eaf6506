"""A scan whose body updates its parameters or passes them on, by a conditional, copies all of them in every iteration.

Structure: three parameters are the carry; a conditional of the body returns either all of them updated or all of them
unchanged. The predicate is data, so the conditional stays.

The right answer: the updates are elementwise, and each can be computed in the bytes of its parameter; the other branch has
nothing to do. So no iteration has to move a whole parameter (three times 128 KiB): a copy at the conditional, or of the
scan's carry, is superfluous. The cured twin selects the step size instead: zero where the parameters have to stay.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def step_down(params):
    return jax.tree.map(lambda p: p - 0.1 * jnp.sin(p), params)


def train(params, flags):
    def body(params, flag):
        return jax.lax.cond(flag, step_down, lambda params: params, params), None  # at: conditional_line

    return jax.lax.scan(body, params, flags)[0]  # at: loop


def train_by_rate(params, flags):
    def body(params, flag):
        rate = jnp.where(flag, 0.1, 0.0)
        return jax.tree.map(lambda p: p - rate * jnp.sin(p), params), None

    return jax.lax.scan(body, params, flags)[0]


PARAMS = {name: Arg(shape=(256, 128), donate=True) for name in ("u", "v", "w")}
ARGS = (PARAMS, Arg(shape=(8,), dtype="bool"))
REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/38145",
    year=2026,
    versions="jaxlib 0.8.2, 0.9.1; not 0.7.2; L40S",
    kind=Kind.SILENT_COPY,
    reported="with a conditional that may leave the carry unchanged, each iteration of a scan copies the whole carry",
    finds=Wrong(at=("conditional_line", "loop")),
    toolchain="0.10",
)
BAD = Case(name="jax_38145", params=("bad",), function=train, args=ARGS)
CURED = Case(name="jax_38145", params=("cured",), function=train_by_rate, args=ARGS)
CASES = (BAD, CURED)
