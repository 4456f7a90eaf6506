"""Two cases draw the same numbers only if their arguments and references are certainly equal."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ligerdiag.compile.cases.loader import compute_draws
from ligerdiag.model.case import Arg, Case, Draw


def reference(x: object, scale: float = 1.0) -> object:
    del scale
    return x


def other(x: object) -> object:
    return x


def redefine(value: object) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"value": value}
    exec("def reference(x, scale=value): return x", namespace)
    return namespace["reference"]


def make_closure() -> Callable[..., Any]:
    value = 1.0
    return lambda x: x * value


def draws(case_id: str = "a", source: str = "/mine.py", **changes: Any) -> str:
    fields = {"function": abs, "args": (Arg(shape=(4,)),), **changes}
    return compute_draws(Case(name=case_id, **fields), source)


def test_cases_with_equal_arguments_and_reference_draw_the_same() -> None:
    assert draws("a") == draws("b", source="/other.py")
    assert draws("a", reference=reference) == draws("b", reference=reference)
    assert draws("a", reference=partial(reference, scale=2.0)) == draws("b", reference=partial(reference, scale=2.0))


@pytest.mark.parametrize(
    "changes",
    [
        {"args": (Arg(shape=(5,)),)},
        {"args": (Arg(shape=(4,), draw=Draw(seed=1)),)},
        {"args": ({"w": Arg(shape=(4,))},)},
        {"args": ([Arg(shape=(4,))],)},
        {"args": (Arg(shape=(4,)), Arg(shape=(4,)))},
        {"reference": reference},
        {"reference": other},
        {"reference": partial(reference, scale=2.0)},
        {"reference": partial(reference, scale=3.0)},
    ],
)
def test_another_argument_or_reference_draws_other_numbers(changes: dict[str, Any]) -> None:
    assert draws(**changes) != draws()
    if "reference" in changes:
        assert draws(**changes) != draws(reference=partial(reference, scale=4.0))


def test_functions_with_the_same_name_are_distinguished_by_their_defaults() -> None:
    assert draws(reference=redefine(1.0)) == draws(reference=redefine(1.0))
    assert draws(reference=redefine(1.0)) != draws(reference=redefine(2.0))


@pytest.mark.parametrize(
    "function", [make_closure(), reference.__call__, redefine(object()), partial(reference, scale=object())]
)
def test_an_unidentifiable_reference_makes_the_draws_the_case_s_own(function: Callable[..., Any]) -> None:
    assert draws("a", reference=function) == draws("a", reference=function)
    assert draws("a", reference=function) != draws("b", reference=function)
