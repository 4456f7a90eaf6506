"""Drives openxla/tokamax: attention, normalisation and gated linear units by Pallas on Triton and on Mosaic GPU."""

from functools import partial
from typing import Any

from ligerdiag import Arg, Case

HEADS = (Arg(shape=(1, 128, 2, 64), dtype="bfloat16"),) * 3


def attend(kind: str, gradient: bool, *arrays: Any) -> dict[str, Any]:
    import jax
    import tokamax

    def apply(*arrays: Any) -> Any:
        return tokamax.dot_product_attention(*arrays, implementation=kind)

    if not gradient:
        return {"out": apply(*arrays)}
    found = jax.grad(lambda *a: apply(*a).astype("float32").sum(), argnums=(0, 1, 2))(*arrays)
    return dict(zip("qkv", found, strict=True))


def normalise(gradient: bool, *arrays: Any) -> dict[str, Any]:
    import jax
    import tokamax

    def apply(*arrays: Any) -> Any:
        return tokamax.layer_norm(*arrays, implementation="triton")

    if not gradient:
        return {"out": apply(*arrays)}
    return dict(
        zip(
            ("x", "scale", "offset"),
            jax.grad(lambda *a: (apply(*a) ** 2).sum(), argnums=(0, 1, 2))(*arrays),
            strict=True,
        )
    )


def gate(*arrays: Any) -> dict[str, Any]:
    import jax
    import tokamax

    return {"out": tokamax.gated_linear_unit(*arrays, activation=jax.nn.silu, implementation="triton")}


CASES = (
    *(
        Case(name="tokamax_attention", params=(kind, gradient), function=partial(attend, kind, gradient), args=HEADS)
        for kind in ("triton", "mosaic")
        for gradient in (False, True)
    ),
    *(
        Case(
            name="tokamax_layer_norm",
            params=(gradient,),
            function=partial(normalise, gradient),
            args=(Arg(shape=(64, 256)), Arg(shape=(256,)), Arg(shape=(256,))),
        )
        for gradient in (False, True)
    ),
    Case(
        name="tokamax_gated_linear_unit",
        function=gate,
        args=(Arg(shape=(128, 64), dtype="bfloat16"), Arg(shape=(64, 2, 128), dtype="bfloat16")),
    ),
)
