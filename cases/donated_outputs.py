"""A donated state that is returned as it came in, beside other outputs of its shapes
(https://github.com/jax-ml/jax/issues/39625: on GPUs, with the state donated and returned last, two of the six numbers
were wrong).

No kernel is in it. The subject is XLA's own behaviour: the copies that it inserts where an output may stand in the
bytes of an argument. Compiled for a GPU that is not there, the schedule has all of them, in the right order, and replay
computes the right numbers. When XLA compiles on the machine with the GPU, it leaves some out and gives two donated
arguments one buffer: an H200 returns the two wrong numbers of the report. So the outputs are unknown.
"""

import itertools
from functools import partial
from typing import Any

from ligerdiag.model.case import Arg, Case, Draw


def make_args(*, donated: bool) -> tuple[Any, ...]:
    """Returns three numbers of a state, and another one."""
    return (
        tuple(Arg(shape=(), draw=Draw(seed=seed), donate=donated) for seed in range(3)),
        Arg(shape=(), draw=Draw(seed=3)),
    )


def compute(order: str, state: Any, value: Any) -> Any:
    """Returns the state and three zeros, in the given order."""
    zero = value - value
    zeros = (zero, zero, zero)
    return (zeros, state) if order == "last" else (state, zeros)


CASES = tuple(
    Case(
        name="donated_outputs",
        function=partial(compute, order),
        args=make_args(donated=donated),
        params=("donated" if donated else "kept", order),
        expected={"*": "unknown"} if donated and order == "last" else "fresh",
        expected_rules=("LD021",) if donated and order == "last" else (),
        reference=partial(compute, order),
        about="jax issue 39625: donation and the order of outputs",
    )
    for donated, order in itertools.product((True, False), ("last", "first"))
)
