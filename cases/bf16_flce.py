"""The seed's table as its bfloat16 rows were meant: the input, and so every matrix product, really in bf16.

The doubt: XLA folds the `f32 -> bf16` convert of the logits that the kernel overwrote, and a reader takes the bf16
logits from before the kernel. Then the trivial operations may not help even on one device.
"""

import itertools
from functools import partial

from cases.seed_flce import compute, compute_reference, make_args
from kernels.fused_linear_cross_entropy.shapes import SEED_LARGE, SEED_SMALL
from kernels.modes import Mode
from ligerdiag.case import Case

LOST = (True, True, SEED_SMALL)
"""The row whose workaround does not help even on one GPU, where one of these toolchains compiles it: the doubt is right."""
LOSE = ("seed", "0.6", "0.9")

CASES = tuple(
    Case(
        name="bf16_flce",
        function=partial(compute, Mode.TRIVIAL if add_trivial_operations else Mode.HIDDEN),
        args=make_args(shape, dtype="bfloat16", bias=bias),
        params=(add_trivial_operations, bias, *shape),
        expected="fresh" if add_trivial_operations else "hazard",
        expected_elsewhere={name: {"input": "stale"} for name in LOSE}
        if (add_trivial_operations, bias, shape) == LOST
        else {},
        reference=compute_reference,
        about="a convert of the overwritten logits, folded away",
    )
    for add_trivial_operations, bias, shape in itertools.product((False, True), (False, True), (SEED_SMALL, SEED_LARGE))
)
