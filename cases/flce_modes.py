"""The seed's fused linear cross entropy in every mode, also those that its author did not try: does declaring it help?

`hidden` and `trivial` are the rows of `seed_flce` and `bf16_flce` once more, as the lowest rungs of the ladder that
`bisect --over mitigation` climbs. `barrier` does not declare the write, only an order; `aliased` and `out_of_place`
make the gradient an output of the kernel, so that nothing can go wrong.
"""

import itertools
from functools import partial

from cases import bf16_flce
from cases.seed_flce import PUBLISHED, compute, compute_reference, expect_published, make_args
from kernels.fused_linear_cross_entropy.shapes import SEED_LARGE, SEED_SMALL, Shape
from kernels.modes import Mode
from ligerdiag.model.case import Case


def expect_elsewhere(mode: Mode, dtype: str, bias: bool, shape: Shape) -> dict[str, dict[str, str]]:
    """Returns what the tables of the seed say of the modes that they have."""
    if mode not in (Mode.HIDDEN, Mode.TRIVIAL):
        return {}
    if dtype == "float32":
        return dict.fromkeys(PUBLISHED, expect_published(mode, bias, shape))
    return bf16_flce.expect_elsewhere(mode, bias, shape)


CASES = tuple(
    Case(
        name="flce_modes",
        function=partial(compute, mode),
        args=make_args(shape, dtype=dtype, bias=bias),
        params=(mode, dtype, bias, *shape),
        expected="hazard" if mode is Mode.HIDDEN else "fresh",
        expected_elsewhere=expect_elsewhere(mode, dtype, bias, shape),
        reference=compute_reference,
        about="what the write is declared as decides whether the gradients are right",
    )
    for mode, dtype, bias, shape in itertools.product(
        Mode,
        ("float32", "bfloat16"),
        (False, True),
        (SEED_SMALL, SEED_LARGE),
    )
)
