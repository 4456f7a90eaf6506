"""The seed's table as its bfloat16 rows were meant: the input, and so every matrix product, really in bf16.

The doubt: XLA folds the `f32 -> bf16` convert of the logits that the kernel overwrote, and a reader takes the bf16
logits from before the kernel. Then the trivial operations may not help even on one device.
"""

import itertools
from functools import partial

from cases.seed_flce import compute, compute_reference, make_args
from kernels.fused_linear_cross_entropy.shapes import SEED_LARGE, SEED_SMALL, Shape
from kernels.modes import Mode
from ligerdiag.model.case import Case

LOSE = ("seed", "0.6", "0.9")
"""Toolchains under which the doubt is right."""


def expect_elsewhere(mode: Mode, bias: bool, shape: Shape) -> dict[str, dict[str, str]]:
    """Returns the row whose workaround does not help even on one GPU."""
    lost = (mode, bias, shape) == (Mode.TRIVIAL, True, SEED_SMALL)
    return {name: {"input": "stale"} for name in LOSE} if lost else {}


CASES = tuple(
    Case(
        name="bf16_flce",
        function=partial(compute, Mode.TRIVIAL if add_trivial_operations else Mode.HIDDEN),
        args=make_args(shape, dtype="bfloat16", bias=bias),
        params=(add_trivial_operations, bias, *shape),
        expected="fresh" if add_trivial_operations else "hazard",
        expected_elsewhere=expect_elsewhere(Mode.TRIVIAL if add_trivial_operations else Mode.HIDDEN, bias, shape),
        reference=compute_reference,
        about="a convert of the overwritten logits, folded away",
        mitigation=Mode.TRIVIAL if add_trivial_operations else Mode.HIDDEN,
    )
    for add_trivial_operations, bias, shape in itertools.product((False, True), (False, True), (SEED_SMALL, SEED_LARGE))
)
