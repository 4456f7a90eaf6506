"""Every model in every mode, on one device and on two: CASES."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax

from kernels.modes import Mode
from ligerdiag.model.case import Arg, Case
from tests.models import language, losses, steps
from tests.models.fused import Model, fuse

MODELS: Mapping[Model, tuple[Any, ...]] = {**language.MODELS, **losses.MODELS, **steps.MODELS}


def compute(model: Model, mode: Mode, *arguments: Any) -> dict[str, Any]:
    """Returns the model's outputs, with its kernels in this mode."""
    return model(fuse(mode), *arguments)


def compute_plain(model: Model, *arguments: Any) -> dict[str, Any]:
    """Returns the model's outputs in plain jnp."""
    return model(fuse(None), *arguments)


def _split(argument: Any) -> Any:
    """Returns the arrays split over two devices by their first dimension."""
    is_leaf = lambda one: isinstance(one, Arg)  # noqa: E731
    return jax.tree.map(_split_array, argument, is_leaf=is_leaf)


def _split_array(arg: Arg) -> Arg:
    return replace(arg, partition=("x",)) if arg.shape and arg.shape[0] % 2 == 0 else arg


def _make_cases(model: Model, arguments: tuple[Any, ...], mode: Mode) -> tuple[Case, ...]:
    one = Case(
        name=model.__name__,
        params=(mode,),
        function=partial(compute, model, mode),
        args=arguments,
        reference=partial(compute_plain, model),
    )
    data = tuple(argument if isinstance(argument, dict) else _split(argument) for argument in arguments)
    both = tuple(map(_split, arguments))
    return (
        one,
        replace(one, params=("data", mode), args=data, mesh={"x": 2}),
        replace(one, params=("data and weights", mode), args=both, mesh={"x": 2}),
    )


CASES = tuple(case for model, args in MODELS.items() for mode in Mode for case in _make_cases(model, args, mode))
