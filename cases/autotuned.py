"""Autotuning on the very buffer that is overwritten: triton-lang/triton issues 54, 6547, NVIDIA/TransformerEngine PR 2814.
The launcher tries each configuration on the operand, and nobody restores what it does not know to be written.

The first execution in a process is wrong and no other is, and neither the schedule nor replay knows of it: a rule says it.
"""

from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.case import Arg, Case

ROWS, COLUMNS = 32, 256


def compute(mode: Mode, x: Any) -> dict[str, Any]:
    """Returns the sums of the rows of x + 1, which the kernel doubles in place."""
    from kernels.tuned_scale.api import double_rows

    return {"sums": double_rows(x + 1.0, mode=mode)[0]}


def compute_reference(x: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    return {"sums": (x + 1.0).sum(-1)}


CASES = tuple(
    Case(
        name="autotuned",
        function=partial(compute, mode),
        args=(Arg(shape=(ROWS, COLUMNS)),),
        params=(mode,),
        expected="fresh",
        expected_rules=() if mode is Mode.ALIASED else ("LD006", "LD010"),
        reference=compute_reference,
        about="configurations that are tried in place",
    )
    for mode in (Mode.HIDDEN, Mode.ALIASED)
)
