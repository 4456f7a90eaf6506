"""The fused linear cross entropy as it is recommended: logits in the input's dtype, chunks by a budget of memory, the
gradient of the weight summed up in a loop. In every mode, without a loop (`one` chunk, f32), with it (`three`, bf16), and
with a loop of one iteration, which XLA keeps because it is told to (`two`, bf16).

The doubt: nothing stands between the kernel and the products that read the gradient, no cast and no scaling, and the loop
adds to its carry in place. Is the declared write enough, and is a hidden one still found?
"""

import itertools
from functools import partial
from typing import Any

from cases.seed_flce import make_args
from kernels.fused_linear_cross_entropy.shapes import CHUNKED
from kernels.modes import Mode
from ligerdiag.model.case import Case

TOKENS = {"one": 96, "two": 48, "three": 32}
"""In a chunk, at most."""
DTYPE = {"one": "float32", "two": "bfloat16", "three": "bfloat16"}
ITEMSIZE = {"float32": 4, "bfloat16": 2}
ROUNDED_AWAY = ("LD006", "LD012", "LD016")
"""In bf16 the sum that `trivial` adds and subtracts is so large that nothing is left of the gradient: each output depends
on what the kernel wrote, and is wrong.
"""


def compute(mode: Mode, chunks: str, *arrays: Any) -> dict[str, Any]:
    """Returns loss and gradients by the kernel in `mode`."""
    from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy
    from kernels.fused_linear_cross_entropy.step import compute_loss_and_gradients_by_autodiff

    logits_bytes = TOKENS[chunks] * CHUNKED.vocabulary * ITEMSIZE[DTYPE[chunks]]
    return compute_loss_and_gradients_by_autodiff(
        fused_linear_cross_entropy, *arrays, mode=mode, logits_bytes=logits_bytes
    )


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns loss and gradients in plain jnp."""
    from kernels.fused_linear_cross_entropy.reference import fused_linear_cross_entropy
    from kernels.fused_linear_cross_entropy.step import compute_loss_and_gradients_by_autodiff

    return compute_loss_and_gradients_by_autodiff(fused_linear_cross_entropy, *arrays)


CASES = tuple(
    Case(
        name="chunked_flce",
        function=partial(compute, mode, chunks),
        args=make_args(CHUNKED, dtype=DTYPE[chunks], bias=chunks == "three"),
        params=(mode, chunks),
        expected="hazard" if mode is Mode.HIDDEN else "fresh",
        expected_rules=ROUNDED_AWAY if mode is Mode.TRIVIAL and DTYPE[chunks] == "bfloat16" else None,
        reference=compute_reference,
        about="the fused linear cross entropy of kernels/, in every mode",
        mitigation=mode,
    )
    for mode, chunks in itertools.product(Mode, TOKENS)
)
