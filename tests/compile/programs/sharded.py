"""A program over a mesh of two axes, with arrays split in several ways."""

from ligerdiag.model.case import Arg, Case


def scale(x, y):
    return {"x": x * 2, "y": y + 1, "z": x.sum()}


CASE = Case(
    name="split",
    function=scale,
    args=(Arg(shape=(8, 6), partition=(("b", "a"), None)), Arg(shape=(4, 4), partition=(None, "b"))),
    mesh={"a": 2, "b": 4},
    about="arrays in parts",
)
