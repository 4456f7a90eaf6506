"""A scan over layers returns the layers' weights, which nothing has changed, and so stacks a second set of them.

Structure: the body returns the state of its layer, counters and weights, as a framework does that treats both alike; the
caller takes the stacked state as the new one.

The right answer: only the counters change. Returning the weights costs a second set of them, 192 KiB more than without: the
scan, or the body's return, is the line. The cured twin, as before the change that brought the mistake, returns the counters
alone.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case

LAYERS, WIDTH = 3, 128


def run(x, layers):
    def body(x, layer):
        x = jnp.tanh(x @ layer["weights"])
        return x, {"count": layer["count"] + 1, "weights": layer["weights"]}  # at: body_line

    x, layers = jax.lax.scan(body, x, layers)  # at: scan_line
    return {"layers": layers, "x": x}


def run_counts(x, layers):
    def body(x, layer):
        return jnp.tanh(x @ layer["weights"]), layer["count"] + 1

    x, counts = jax.lax.scan(body, x, layers)
    return {"counts": counts, "x": x}


LAYER_STATE = {"count": Arg(shape=(LAYERS,), dtype="int32"), "weights": Arg(shape=(LAYERS, WIDTH, WIDTH))}
ARGS = (Arg(shape=(8, WIDTH)), LAYER_STATE)
REPORT = Report(
    link="https://github.com/AI-Hypercomputer/maxtext/pull/4405",
    year=2026,
    versions="MaxText of July 2026, TPU",
    kind=Kind.MEMORY_DRIFT,
    reported="a scan that returns unchanged parameters allocates all of them a second time",
    finds=Wrong(at=("body_line", "scan_line")),
    revised="the kind was silent copy",
)
BAD = Case(name="maxtext_4405", params=("bad",), function=run, args=ARGS)
CURED = Case(name="maxtext_4405", params=("cured",), function=run_counts, args=ARGS)
CASES = (BAD, CURED)
