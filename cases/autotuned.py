"""Autotuning on the overwritten buffer itself: triton-lang/triton issues 54, 6547, NVIDIA/TransformerEngine PR 2814.
The launcher tries each configuration on the operand, and does not restore operands whose writes it does not know.

Only the first execution in a process is wrong, and neither the schedule nor replay shows it: a rule reports it. The
declared alias does not help here: it names output 1, and the launcher takes that for a number among operands and outputs.
"""

from functools import partial
from typing import Any

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case

ROWS, COLUMNS = 32, 256
TRIED = ("LD017?",)
"""A device differs from one run to the next: the first one has the trials in it."""


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
        expected_rules=("LD010", *TRIED) if mode is Mode.ALIASED else ("LD006", "LD010", *TRIED),
        reference=compute_reference,
        about="configurations that are tried in place",
    )
    for mode in (Mode.HIDDEN, Mode.ALIASED)
)
