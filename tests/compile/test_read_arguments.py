"""The arguments that JAX keeps, where a library's primitive is made for another JAX (jax-triton 0.4 under JAX 0.12)."""

from collections.abc import Callable, Generator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend import core as jex_core
from jax.interpreters import partial_eval

from ligerdiag.compile.lowering.jax_versions import find_read

X = jax.ShapeDtypeStruct((8,), jnp.float32)
RULES: dict[Any, Any] = getattr(partial_eval, "dce_rules")  # noqa: B009


def keep(used: Any, equation: Any) -> Any:
    return [True] * len(equation.invars), equation


def keep_for_newer_jax(used: Any, live: Any, equation: Any) -> Any:
    assert len(live) == len(equation.invars)
    return [True] * len(equation.invars), equation


def keep_for_no_jax(one: Any, two: Any, three: Any, four: Any) -> Any:
    raise AssertionError


@pytest.fixture
def make_double() -> Generator[Callable[[Any], Any]]:
    """Returns a function that makes a primitive with a rule for dropping its equation."""
    made = list[Any]()

    def make(rule: Any) -> Any:
        primitive: Any = jex_core.Primitive("double")
        primitive.def_abstract_eval(lambda x: x)
        RULES[primitive] = rule
        made.append(primitive)
        return primitive

    yield make
    for primitive in made:
        del RULES[primitive]


@pytest.mark.parametrize("rule", [keep, keep_for_newer_jax])
def test_an_argument_that_is_not_read_is_dropped_whichever_jax_the_rule_is_made_for(
    rule: Any, make_double: Callable[[Any], Any]
) -> None:
    double = make_double(rule)

    def inner(spare: Any, x: Any) -> Any:
        return double.bind(x)

    traced = jax.jit(lambda old, spare, x: jax.jit(inner)(spare, x)).trace(X, X, X)
    assert find_read(traced) == {2}
    assert RULES[double] is rule


def test_all_arguments_count_as_read_if_the_rule_fits_no_jax(make_double: Callable[[Any], Any]) -> None:
    double = make_double(keep_for_no_jax)
    assert find_read(jax.jit(lambda old, x: double.bind(x)).trace(X, X)) == {0, 1}
