"""The state of a simulation has one array in two places, so it cannot be donated.

Structure: the initial state is made with one array of zeros for both velocities; the step donates the whole state.

The right answer: both leaves give away the same bytes, and two outputs would take them: today's runtime refuses to donate a
buffer twice. The state that is passed is the line. The cured twin makes two arrays of zeros.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Case


def step(state):
    velocity = state["velocity"] - 0.1 * state["position"]
    return {"position": state["position"] + 0.1 * velocity, "rotation": 0.9 * state["rotation"], "velocity": velocity}


POSITION, ZEROS = jnp.ones((128, 64)), jnp.zeros((128, 64))
DONATING = jax.jit(step, donate_argnums=(0,))
SHARED = {"position": POSITION, "rotation": ZEROS, "velocity": ZEROS}
REPORT = Report(
    link="https://github.com/learnsyslab/crazyflow/issues/110",
    year=2026,
    versions="not said",
    kind=Kind.VOID_DONATION,
    reported="arguments that accidentally share one array block the donation of the state",
    finds=Wrong(at=("call",)),
    revised="the program passed NumPy arrays, which JAX copies for each argument, so that it ran; now it passes JAX arrays",
)
BAD = Case(name="crazyflow_110", params=("bad",), function=DONATING, args=(SHARED,))  # at: call
CURED = Case(name="crazyflow_110", params=("cured",), function=DONATING, args=({**SHARED, "rotation": 1.0 * ZEROS},))
CASES = (BAD, CURED)
