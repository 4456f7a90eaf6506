"""The values that a `Draw` stands for, by NumPy alone: a stranger's dump is replayed without JAX."""

from typing import Any

import numpy as np

from ligerdiag.model.case import Draw


def draw_values(draw: Draw, random: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Returns an array of NumPy's, drawn in f32 and cast to the dtype."""
    values: Any
    match _settle_kind(draw.kind, dtype):
        case "normal":
            values = random.standard_normal(shape, np.float32) * np.float32(draw.scale)
        case "squares":
            values = np.square(random.standard_normal(shape, np.float32)) * np.float32(draw.scale)
        case "uniform":
            low, high = np.float32(draw.low), np.float32(draw.high)
            values = random.random(shape, np.float32) * (high - low) + low
            values = np.where(values < high, values, low)  # where the sum was rounded up
        case "randint":
            values = random.integers(int(draw.low), int(draw.high), shape)
        case "bernoulli":
            values = random.random(shape, np.float32) < (0.5 if draw.kind == "usual" else draw.scale)
        case kind:
            assert kind == "zeros"
            values = np.zeros(shape)
    return np.asarray(values).astype(dtype)


def _settle_kind(kind: str, dtype: Any) -> str:
    if kind != "usual":
        return kind
    return "bernoulli" if dtype.kind == "b" else "randint" if dtype.name.startswith(("int", "uint")) else "normal"
