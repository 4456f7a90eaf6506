"""Drives the examples of jax-ml/jax-triton."""

import importlib
from functools import partial
from typing import Any

from ligerdiag import Arg, Case


def compute(name: str, *arrays: Any) -> dict[str, Any]:
    return {"out": getattr(importlib.import_module(name), name)(*arrays)}


ROWS, HALF = Arg(shape=(64, 64)), Arg(shape=(512, 512), dtype="float16")
CASES = (
    Case(name="example_add", function=partial(compute, "add"), args=(Arg(shape=(512,)),) * 2),
    Case(name="example_softmax", function=partial(compute, "softmax"), args=(ROWS,)),
    Case(name="example_matmul", function=partial(compute, "matmul"), args=(HALF, HALF)),
    Case(
        name="example_fused_attention",
        function=partial(compute, "fused_attention"),
        args=(Arg(shape=(1, 2, 128, 64), dtype="float16"),) * 3,
    ),
)
