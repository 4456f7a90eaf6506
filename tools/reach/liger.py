"""Drives phlippe/liger_kernels: Liger's cross entropy, alone and after a linear layer."""

from functools import partial
from typing import Any

from ligerdiag import Arg, Case, Draw

TARGETS = Arg(shape=(64,), dtype="int32", draw=Draw(kind="randint", high=256))


def compute_cross_entropy(last: bool, logits: Any, targets: Any) -> dict[str, Any]:
    import jax
    from cross_entropy import liger_cross_entropy

    loss, gradient = jax.value_and_grad(lambda x: liger_cross_entropy(x, targets, last_layer=last))(logits)
    return {"loss": loss, "logits": gradient}


def compute_behind_layer(last: bool, logits: Any, weight: Any, targets: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from cross_entropy import liger_cross_entropy

    def compute(x: Any, weight: Any) -> Any:
        return liger_cross_entropy(jnp.tanh(x) @ weight, targets, last_layer=last)

    loss, (x, weight) = jax.value_and_grad(compute, argnums=(0, 1))(logits, weight)
    return {"loss": loss, "x": x, "weight": weight}


def compute_fused(trivial: bool, x: Any, weight: Any, bias: Any, targets: Any) -> dict[str, Any]:
    import jax
    from fused_linear_cross_entropy import liger_fused_linear_cross_entropy

    def compute(*arrays: Any) -> Any:
        x, weight, bias = arrays
        return liger_fused_linear_cross_entropy(x, weight, targets, bias, add_trivial_operations=trivial)

    loss, found = jax.value_and_grad(compute, argnums=(0, 1, 2))(x, weight, bias)
    return {"loss": loss, **dict(zip(("x", "weight", "bias"), found, strict=True))}


LAYER = (Arg(shape=(64, 32)), Arg(shape=(32, 256)))
CASES = (
    *(
        Case(
            name="liger_cross_entropy",
            params=(last,),
            function=partial(compute_cross_entropy, last),
            args=(Arg(shape=(64, 256)), TARGETS),
        )
        for last in (False, True)
    ),
    Case(
        name="liger_behind_layer", params=(True,), function=partial(compute_behind_layer, True), args=(*LAYER, TARGETS)
    ),
    *(
        Case(
            name="liger_fused",
            params=(trivial,),
            function=partial(compute_fused, trivial),
            args=(*LAYER, Arg(shape=(256,)), TARGETS),
        )
        for trivial in (False, True)
    ),
)
