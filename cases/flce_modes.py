"""The seed's fused linear cross entropy in the modes that its author did not try: does saying it to XLA mend it?

`barrier` says nothing of the write, only of an order; `aliased` and `out_of_place` make the gradient an output of the
kernel, so that nothing is left to go wrong.
"""

import itertools
from functools import partial

from cases.seed_flce import compute, compute_reference, make_args
from kernels.fused_linear_cross_entropy.shapes import SEED_LARGE, SEED_SMALL
from kernels.modes import Mode
from ligerdiag.case import Case

CASES = tuple(
    Case(
        name="flce_modes",
        function=partial(compute, mode),
        args=make_args(shape, dtype=dtype, bias=bias),
        params=(mode, dtype, bias, *shape),
        expected="fresh",
        reference=compute_reference,
        about="what the write is declared as decides whether the gradients are right",
    )
    for mode, dtype, bias, shape in itertools.product(
        (Mode.BARRIER, Mode.ALIASED, Mode.OUT_OF_PLACE),
        ("float32", "bfloat16"),
        (False, True),
        (SEED_SMALL, SEED_LARGE),
    )
)
