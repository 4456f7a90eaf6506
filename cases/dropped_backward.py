"""The seed's backward pass with `last_layer=False`: three kernels without results should multiply gradients by the
cotangent, in place (https://github.com/phlippe/liger_kernels). JAX drops a call without results, before XLA sees it.

The cotangent is 1 if the loss itself is differentiated, and then the error is invisible. Here the loss has a weight, as
beside a second loss. The forward pass is the recommended one (`aliased`), so that nothing else can be wrong.
"""

from functools import partial
from typing import Any

from cases.seed_flce import make_args
from kernels.fused_linear_cross_entropy.shapes import SEED_SMALL
from kernels.modes import Mode
from ligerdiag.model.case import Case

WEIGHT = 0.25


def compute(mode: Mode, *arrays: Any) -> dict[str, Any]:
    """Returns the weighted loss and its gradients; the backward pass scales them by a kernel in `mode`."""
    import jax

    from kernels.fused_linear_cross_entropy.step import compute_loss_and_gradients_by_autodiff
    from kernels.scale.api import scale
    from kernels.seed_flce.api import fused_linear_cross_entropy_with_gradients

    @jax.custom_vjp
    def fused(*parameters: Any) -> Any:
        return forward(*parameters)[0]

    def forward(input: Any, weight: Any, targets: Any, bias: Any, where: Any) -> tuple[Any, Any]:
        results = fused_linear_cross_entropy_with_gradients(input, weight, targets, bias, where=where)
        return results["loss"], (results["input"], results["weight"], results["bias"])

    def backward(gradients: Any, cotangent: Any) -> Any:
        input, weight, bias = (scale(gradient, cotangent, mode=mode) for gradient in gradients)
        return input, weight, None, bias, None

    fused.defvjp(forward, backward)

    def loss_of(input: Any, weight: Any, targets: Any, bias: Any, *, where: Any) -> Any:
        return WEIGHT * fused(input, weight, targets, bias, where)

    return compute_loss_and_gradients_by_autodiff(loss_of, *arrays)


def compute_reference(*arrays: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    from kernels.fused_linear_cross_entropy.reference import fused_linear_cross_entropy
    from kernels.fused_linear_cross_entropy.step import compute_loss_and_gradients_by_autodiff

    def loss_of(*arrays: Any, **options: Any) -> Any:
        return WEIGHT * fused_linear_cross_entropy(*arrays, **options)

    return compute_loss_and_gradients_by_autodiff(loss_of, *arrays)


CASES = tuple(
    Case(
        name="dropped_backward",
        function=partial(compute, mode),
        args=make_args(SEED_SMALL, dtype="float32", bias=True),
        params=(mode,),
        expected={"loss": "fresh", "*": "stale"} if mode is Mode.HIDDEN else "fresh",
        expected_rules=("LD002", "LD006", "LD007") if mode is Mode.HIDDEN else (),
        reference=compute_reference,
        about="phlippe/liger_kernels: kernels without outputs in the backward pass",
    )
    for mode in (Mode.HIDDEN, Mode.ALIASED)
)
