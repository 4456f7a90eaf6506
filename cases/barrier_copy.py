"""An `optimization_barrier` holds back operations, not the copies that XLA puts in afterwards
(https://github.com/jax-ml/jax/issues/25399, https://github.com/openxla/xla/issues/20440, seen on the CPU).

- `plain`: the reports' own program, no kernel in it: an element of a donated array is read before the array is
  updated in place. Compiled for a GPU nothing is copied, with the barrier or without
- `kernel`: the kernel overwrites an argument that the caller keeps. What the program returns of it can only be a
  copy, and the question is from when: of before the kernel, or of after
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.cross_entropy.shapes import WIDE
from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case, Draw

PLAIN = (Arg(shape=(512, 512), draw=Draw(seed=0), donate=True),)
ARGS = (
    Arg(shape=(WIDE.context, WIDE.vocabulary), draw=Draw(seed=0)),
    Arg(shape=(WIDE.context,), dtype="int32", draw=Draw(kind="randint", seed=1, high=WIDE.vocabulary)),
)
EXPECTED_RULES = {Mode.HIDDEN: ("LD002", "LD006", "LD009"), Mode.BARRIER: ("LD006", "LD009"), Mode.ALIASED: ()}


def compute_plain(with_barrier: bool, array: Any) -> dict[str, Any]:
    """Returns an element of the array, and the array with that element changed."""
    import jax

    element = array[0, 0]
    if with_barrier:
        array, element = jax.lax.optimization_barrier((array, element))
    return {"element": element, "array": array.at[0, 0].add(1.0)}


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns loss, gradient and a gradient with one element changed, by the kernel in `mode`."""
    from kernels.seed_flce.cross_entropy import cross_entropy_with_gradient

    return _compute(partial(cross_entropy_with_gradient, mode=mode), *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax

    from kernels.cross_entropy.reference import cross_entropy

    return _compute(jax.value_and_grad(cross_entropy), *arrays)


def _compute(loss_and_gradient: Callable[..., Any], logits: Any, targets: Any) -> dict[str, Any]:
    loss, gradient = loss_and_gradient(logits, targets)
    return {"loss": loss, "logits": gradient, "updated": gradient.at[0, 0].add(1.0)}


CASES = (
    *(
        Case(
            name="barrier_copy",
            function=partial(compute_plain, with_barrier),
            args=PLAIN,
            params=("plain", "barrier" if with_barrier else "no_barrier"),
            expected="fresh",
            expected_rules=(),
            reference=partial(compute_plain, False),
            about="jax issue 25399: copies come after the barrier",
        )
        for with_barrier in (False, True)
    ),
    *(
        Case(
            name="barrier_copy",
            function=partial(compute, mode),
            args=ARGS,
            params=("kernel", mode),
            expected={"updated": "stale"} if mode is Mode.HIDDEN else "fresh",
            expected_rules=EXPECTED_RULES[mode],
            reference=compute_reference,
            about="jax issue 25399: a copy of what the kernel overwrites, and a barrier",
        )
        for mode in EXPECTED_RULES
    ),
)
