"""A case of a file is compiled like the same live function: the options of `jax.jit` count, arguments are recorded."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from ligerdiag.compile.cases.arguments import compute_donated, draw_arguments
from ligerdiag.compile.cases.loader import compute_draws
from ligerdiag.compile.cases.normalize import normalize_case
from ligerdiag.errors import CaseError, InputError
from ligerdiag.model.case import Arg, Case, Draw

X = Arg(shape=(4,))


class Moments(NamedTuple):
    m: Any
    v: Any


def make(function: Any, *args: Any, **words: Any) -> Case:
    return normalize_case(Case(name="a", function=function, args=args, **words))


def test_what_jit_donates_is_donated() -> None:
    step = jax.jit(lambda params, batch: params["w"] + batch, donate_argnums=0)
    case = make(step, {"w": X, "b": [X]}, X)
    assert compute_donated(case) == (0,)
    assert case.function is step.__wrapped__
    assert normalize_case(case) == case


def test_a_name_donates_as_a_number_does() -> None:
    assert compute_donated(make(jax.jit(lambda params, batch: batch, donate_argnames="batch"), X, X)) == (1,)


def test_a_static_argument_is_bound_and_donation_counts_without_it() -> None:
    def step(params: Any, steps: int, batch: Any) -> Any:
        return params * steps + batch

    case = make(jax.jit(step, static_argnums=1, donate_argnums=2), X, 3, X)
    assert compute_donated(case) == (1,)
    assert case.function(2.0, 4.0) == 10.0


def test_a_function_with_shardings_of_its_own_keeps_its_jit_and_its_donation() -> None:
    sharding = NamedSharding(AbstractMesh((2,), ("x",)), PartitionSpec("x"))
    jitted = jax.jit(lambda x: x, in_shardings=sharding, donate_argnums=0)
    case = make(jitted, X)
    assert (case.function, compute_donated(case)) == (jitted, (0,))


def test_what_is_said_by_the_argument_stays() -> None:
    case = make(lambda x, y: (x, y), Arg(shape=(4,), donate=True), X)
    assert compute_donated(case) == (0,)


def test_the_mesh_is_that_of_the_arguments_shardings_unless_it_is_given() -> None:
    sharding = NamedSharding(AbstractMesh((4,), ("data",)), PartitionSpec("data"))
    spec = jax.ShapeDtypeStruct((8,), "float32", sharding=sharding)
    assert make(abs, spec).mesh == {"data": 4}
    assert make(abs, spec).args[0].partition == ("data",)
    assert make(abs, spec, mesh={"data": 2}).mesh == {"data": 2}
    assert make(abs, X, mesh=(8, 2)).mesh == {"x": 8, "y": 2}


def draw(*args: Any, number: int = 0) -> tuple[Any, ...]:
    return draw_arguments(make(abs, *args), number)


def test_integers_are_labels_of_any_program_and_booleans_are_of_both_kinds() -> None:
    labels, mask = draw(Arg(shape=(64,), dtype="int32"), Arg(shape=(64,), dtype="bool"))
    assert set(np.asarray(labels).tolist()) == {0, 1}
    assert set(np.asarray(mask).tolist()) == {True, False}


@pytest.mark.parametrize(
    "optimizer", [optax.adamw(1e-3), optax.rmsprop(1e-3), optax.adagrad(1e-3), optax.adafactor(1e-3)]
)
def test_a_step_of_an_optimizer_on_usual_draws_has_no_nan(optimizer: Any) -> None:
    params = {"w": jax.ShapeDtypeStruct((128, 256), jnp.float32), "v": jax.ShapeDtypeStruct((4,), jnp.float32)}
    as_args = lambda tree: jax.tree.map(lambda a: Arg(shape=a.shape, dtype=a.dtype), tree)  # noqa: E731
    given = as_args((params, params, jax.eval_shape(optimizer.init, params)))
    grads, weights, state = draw(*given)
    updates, state = optimizer.update(grads, state, weights)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((updates, state)))
    assert bool((weights["v"] < 0).any())


def test_a_second_moment_of_ones_own_class_is_not_negative_and_attentions_values_are_drawn_as_ever() -> None:
    state, params = draw(Moments(X, {"w": X}), {"v": X})
    assert bool((state.v["w"] >= 0).all())
    assert bool((state.m < 0).any())
    assert bool((params["v"] < 0).any())


def test_a_draw_that_is_said_stands() -> None:
    (state,) = draw(Moments(X, Arg(shape=(4,), draw=Draw(kind="normal"))))
    assert bool((state.v < 0).any())


def test_an_arguments_values_are_its_own_in_each_draw() -> None:
    labels = np.array([5, 0, 3], np.int32)
    for number in (0, 1):
        assert draw(labels, jnp.arange(3.0), number=number)[0].tolist() == labels.tolist()
    assert compute_draws(make(abs, labels), "/a.py") != compute_draws(make(abs, labels + 1), "/a.py")


def by_range(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.random.randint(key, shape, 7, 9)


def by_none(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jnp.zeros(())


def test_a_function_draws_with_a_key_of_each_draw() -> None:
    arg = Arg(shape=(32,), dtype="int8", draw=by_range)
    (first,), (second,) = draw(arg), draw(arg, number=1)
    assert set(first.tolist()) == {7, 8} == set(second.tolist())
    assert (str(first.dtype), first.tolist() == second.tolist()) == ("int8", False)


def test_a_function_that_draws_something_else_is_an_error_with_its_reason() -> None:
    with pytest.raises(InputError, match=r"expected a draw of shape \[4\] but got one of shape \[\]"):
        draw(Arg(shape=(4,), draw=by_none))
    with pytest.raises(CaseError, match=r"test_normalized_case.py:\d+: ZeroDivisionError"):
        draw(Arg(shape=(4,), draw=lambda key, shape, dtype: 1 // 0))


def test_cases_draw_the_same_where_their_functions_are_known_to_be_the_same() -> None:
    def hash_of(function: Any, case_id: str) -> str:
        case = Case(name=case_id, function=abs, args=(Arg(shape=(4,), draw=function),))
        return compute_draws(case, "/a.py")

    assert hash_of(by_range, "a") == hash_of(by_range, "b")
    assert hash_of(by_range, "a") != hash_of(by_none, "a")
    assert hash_of(lambda *_: 0, "a") != hash_of(lambda *_: 0, "b")
