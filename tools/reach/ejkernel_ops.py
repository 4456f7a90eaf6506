"""Drives erfanzar/ejkernel: attention, pooling and recurrences by its own copy of `triton_call`."""

from functools import partial
from typing import Any

from ligerdiag import Arg, Case, Draw

HEADS = Arg(shape=(1, 64, 2, 32))


def _import(name: str) -> Any:
    """Imports ejkernel: it passes `abstracted_axes=None` to `jax.jit`, which does not take it since JAX 0.10."""
    import importlib

    import jax

    jit: Any = jax.jit

    def take(*arguments: Any, abstracted_axes: Any = None, **words: Any) -> Any:
        return jit(*arguments, **words) if arguments else lambda function: jit(function, **words)

    jax.jit = take
    try:
        return getattr(importlib.import_module(f"ejkernel.kernels._triton.{name}"), name)
    finally:
        jax.jit = jit


def compute(name: str, gradient: bool, *arrays: Any) -> dict[str, Any]:
    import jax

    apply = _import(name)

    def first(*arrays: Any) -> Any:
        found = apply(*arrays)
        return found[0] if isinstance(found, tuple) else found

    if not gradient:
        return {"out": first(*arrays)}
    found = jax.grad(lambda *a: (first(*a) ** 2).sum(), argnums=tuple(range(len(arrays))))(*arrays)
    return {f"d{number}": one for number, one in enumerate(found)}


def decode(*arrays: Any) -> dict[str, Any]:
    return {"out": _import("ragged_decode_attention")(*arrays)}


CASES = (
    *(
        Case(name=f"ejkernel_{name}", params=(gradient,), function=partial(compute, name, gradient), args=args)
        for name, args in (("flash_attention", (HEADS,) * 3), ("mean_pooling", (HEADS,)), ("recurrent", (HEADS,) * 3))
        for gradient in (False, True)
    ),
    Case(
        name="ejkernel_ragged_decode",
        function=decode,
        args=(
            Arg(shape=(2, 4, 64)),
            Arg(shape=(2, 128, 2, 64)),
            Arg(shape=(2, 128, 2, 64)),
            Arg(shape=(2,), dtype="int32", draw=Draw(kind="randint", high=1)),
            Arg(shape=(2,), dtype="int32", draw=Draw(kind="randint", low=64, high=128)),
        ),
    ),
)
