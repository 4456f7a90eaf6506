"""A program without kernels that updates one donated argument twice: one update works in place, the other one on a copy."""

from typing import Any

from ligerdiag.model.case import Arg, Case


def update(x: Any) -> dict[str, Any]:
    """Returns `x` with another first row, and `x` with another second row. x: f32[256, 256]."""
    return {"first": x.at[0].set(0.0), "second": x.at[1].set(1.0)}


CASE = Case(name="two_updates", function=update, args=(Arg(shape=(256, 256), donate=True),))
