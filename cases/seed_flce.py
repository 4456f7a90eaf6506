"""The table that this project grew from: a fused linear cross entropy for JAX whose kernel overwrites the f32 logits
with their gradient (https://github.com/phlippe/liger_kernels).

Its test has 16 rows; 4 failed on an H100 in late 2024, all of them without the trivial operations and with a bias:
the logits themselves came back for gradients. The ids here are the test's: add_trivial_operations, dtype, bias, batch,
context, vocabulary, embedding.

The input is float32 in all rows. The test casts it to the row's dtype, but then divides it by `numpy.sqrt(V)`, a
float64 scalar, and JAX promotes the quotient to float32: the `bfloat16` rows differ by the rounding of the values
drawn, and compile to the same program. `bf16_flce` has these rows as they were meant. (That rounding is left out here.)
"""

import itertools
import math
from functools import partial
from typing import Any

from kernels.fused_linear_cross_entropy.shapes import SEED_LARGE, SEED_SMALL, Shape
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

PUBLISHED = ("seed", "0.6")
"""Toolchains that compile what the published run says."""


def make_args(shape: Shape, *, dtype: str, bias: bool) -> tuple[Arg, ...]:
    """Returns input (of `dtype`), targets, mask, weight and bias, drawn as the seed's test draws them."""
    tokens = (shape.batch, shape.context)
    args = (
        Arg(shape=(*tokens, shape.embedding), dtype=dtype, draw=Draw(seed=0, scale=1 / math.sqrt(shape.vocabulary))),
        Arg(shape=tokens, dtype="int32", draw=Draw(kind="randint", seed=1, low=0, high=shape.vocabulary)),
        Arg(shape=tokens, dtype="bool", draw=Draw(kind="bernoulli", seed=2, scale=0.5)),
        Arg(shape=(shape.embedding, shape.vocabulary), draw=Draw(seed=3)),
        Arg(shape=(shape.vocabulary,), draw=Draw(seed=4)),
    )
    return args if bias else args[:-1]


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns loss and gradients by the kernel in `mode`."""
    from kernels.fused_linear_cross_entropy.step import compute_loss_and_gradients_by_autodiff
    from kernels.seed_flce.api import fused_linear_cross_entropy

    return compute_loss_and_gradients_by_autodiff(fused_linear_cross_entropy, *arrays, mode=mode)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns loss and gradients in plain jnp."""
    from kernels.fused_linear_cross_entropy.reference import fused_linear_cross_entropy
    from kernels.fused_linear_cross_entropy.step import compute_loss_and_gradients_by_autodiff

    return compute_loss_and_gradients_by_autodiff(fused_linear_cross_entropy, *arrays)


def expect_published(mode: Mode, bias: bool, shape: Shape) -> dict[str, str]:
    """Returns what the published run says of a row: what its test found wrong, and that it found nothing else.

    The test compares in the order bias, loss, weight, x, for `jax.device_get` gives a dictionary back in the order of its
    sorted keys, and stops at the first that is wrong. For the small shape that is x, so the others are right. For the large
    one it is the bias: what comes after it was not seen, and the input is what we find.
    """
    if mode is Mode.TRIVIAL:
        return {"*": "fresh"}
    wrong = ({"input"} if shape is SEED_SMALL else {"bias", "input"}) if bias else set[str]()
    return {"*": "fresh|latent", **dict.fromkeys(sorted(wrong), "stale")}


CASES = tuple(
    Case(
        name="seed_flce",
        function=partial(compute, Mode.TRIVIAL if add_trivial_operations else Mode.HIDDEN),
        args=make_args(shape, dtype="float32", bias=bias),
        params=(add_trivial_operations, dtype, bias, *shape),
        expected="fresh" if add_trivial_operations else "hazard",
        expected_elsewhere=dict.fromkeys(
            PUBLISHED, expect_published(Mode.TRIVIAL if add_trivial_operations else Mode.HIDDEN, bias, shape)
        ),
        reference=compute_reference,
        about="phlippe/liger_kernels: the published table",
        mitigation=Mode.TRIVIAL if add_trivial_operations else Mode.HIDDEN,
    )
    for add_trivial_operations, dtype, bias, shape in itertools.product(
        (False, True), ("float32", "bfloat16"), (False, True), (SEED_SMALL, SEED_LARGE)
    )
)
