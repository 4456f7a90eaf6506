"""Model state and sampler state share an array, and both are donated.

Structure: two arguments are donated; the sampler's state keeps a reference to the position that the model's state holds.

The right answer: two donations give away the same bytes, and two outputs would take them: the runtime refuses to donate a
buffer twice. The arguments are the line. The cured twin gives the sampler a copy.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Case


def sample(model, sampler):
    step = 0.1 * sampler["momentum"]
    return {"last": model["position"] + 0.0, "momentum": 0.9 * step, "position": model["position"] + step}


POSITION, MOMENTUM = jnp.ones((128, 64)), jnp.ones((128, 64))
DONATING = jax.jit(sample, donate_argnums=(0, 1), keep_unused=True)
MODEL, SAMPLER = {"position": POSITION}, {"last": POSITION, "momentum": MOMENTUM}
REPORT = Report(
    link="https://github.com/liesel-devs/liesel/pull/272",
    year=2025,
    versions="not said",
    kind=Kind.VOID_DONATION,
    reported="donating the states of model and kernels fails, because one buffer is donated twice",
    finds=Wrong(at=("call",)),
    revised="the program passed NumPy arrays, which JAX copies for each argument, so that it ran; now it passes JAX arrays",
)
BAD = Case(name="liesel_272", params=("bad",), function=DONATING, args=(MODEL, SAMPLER))  # at: call
CURED = Case(name="liesel_272", params=("cured",), function=DONATING, args=(MODEL, {**SAMPLER, "last": 1.0 * POSITION}))
CASES = (BAD, CURED)
