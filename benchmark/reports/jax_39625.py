"""Donated arguments that are returned unchanged come back mixed up, if the other results come first.

Structure: three donated scalars are returned as they are, behind three equal results of another computation.

The right answer: `zero_*` are 0, since y - y is 0, and `state_*` are the arguments. On a GPU the second of the zeros
and the third of the states were the second state: outputs that share a donated buffer.
"""

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def keep_last(first, second, third, y):
    zero = y - y
    return {"zero_1": zero, "zero_2": zero, "zero_3": zero, "zstate_1": first, "zstate_2": second, "zstate_3": third}


def keep_first(first, second, third, y):
    zero = y - y
    return {"state_1": first, "state_2": second, "state_3": third, "zero_1": zero, "zero_2": zero, "zero_3": zero}


REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/39625",
    year=2026,
    versions="jax 0.8 to 0.11, CUDA",
    kind=Kind.SHARED_BYTES,
    reported="with donate_argnums results are wrong on GPUs, depending on the order of the outputs",
    finds=Wrong(outputs=("zero_2", "zstate_3"), kinds=(Kind.SHARED_BYTES, Kind.MISCOMPILE)),
)
ARGS = (*(Arg(shape=(), donate=True) for _ in range(3)), Arg(shape=()))
BAD = Case(name="jax_39625", params=("bad",), function=keep_last, args=ARGS)
CURED = Case(name="jax_39625", params=("cured",), function=keep_first, args=ARGS)
CASES = (BAD, CURED)
