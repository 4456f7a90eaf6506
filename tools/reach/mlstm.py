"""Drives NX-AI/mlstm_kernels: the chunkwise mLSTM, its gradient, and one step of the recurrence."""

from functools import partial
from typing import Any

from ligerdiag import Arg, Case

GATE = Arg(shape=(1, 2, 256))
SEQUENCE = (Arg(shape=(1, 2, 256, 64)),) * 3 + (GATE, GATE)


def compute(kind: str, gradient: bool, *arrays: Any) -> dict[str, Any]:
    import importlib

    import jax

    folder, name = {
        "xl": ("triton_xl_chunk", "mlstm_chunkwise__xl_chunk"),
        "siging": ("triton_xl_chunk_siging", "mlstm_siging_chunkwise__xl_chunk"),
        "limit": ("triton_limit_chunk", "mlstm_chunkwise__limit_chunk"),
    }[kind]
    apply = partial(getattr(importlib.import_module(f"mlstm_kernels.jax.chunkwise.{folder}.fwbw"), name), chunk_size=64)
    if not gradient:
        return {"out": apply(*arrays)}
    found = jax.grad(lambda *a: (apply(*a) ** 2).sum(), argnums=tuple(range(5)))(*arrays)
    return dict(zip("qkvif", found, strict=True))


def step(*arrays: Any) -> dict[str, Any]:
    from mlstm_kernels.jax.recurrent.triton_step import mlstm_recurrent_step__triton

    q, k, v, i, f, c, n, m = arrays
    h, (c, n, m) = mlstm_recurrent_step__triton(q=q, k=k, v=v, i=i, f=f, c=c, n=n, m=m)
    return {"h": h, "c": c, "n": n, "m": m}


VECTOR, SCALAR = Arg(shape=(2, 2, 64)), Arg(shape=(2, 2, 1))
CASES = (
    *(
        Case(name="mlstm", params=(kind, gradient), function=partial(compute, kind, gradient), args=SEQUENCE)
        for kind in ("xl", "siging", "limit")
        for gradient in (False, True)
    ),
    Case(
        name="mlstm_step",
        function=step,
        args=(VECTOR,) * 3 + (SCALAR,) * 2 + (Arg(shape=(2, 2, 64, 64)), VECTOR, SCALAR),
    ),
)
