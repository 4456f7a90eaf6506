"""A case in a file is compiled like the same live function: the options of `jax.jit` count, and arguments are recorded."""

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


def test_arguments_donated_by_jit_are_donated() -> None:
    step = jax.jit(lambda params, batch: params["w"] + batch, donate_argnums=0)
    case = make(step, {"w": X, "b": [X]}, X)
    assert compute_donated(case) == (0,)
    assert case.function is step.__wrapped__
    assert normalize_case(case) == case


def test_donation_by_name_equals_donation_by_number() -> None:
    assert compute_donated(make(jax.jit(lambda params, batch: batch, donate_argnames="batch"), X, X)) == (1,)


def test_a_static_argument_is_bound_and_not_counted_by_donation() -> None:
    def step(params: Any, steps: int, batch: Any) -> Any:
        return params * steps + batch

    case = make(jax.jit(step, static_argnums=1, donate_argnums=2), X, 3, X)
    assert compute_donated(case) == (1,)
    assert case.function(2.0, 4.0) == 10.0


def test_a_function_with_its_own_shardings_keeps_its_jit_and_donation() -> None:
    sharding = NamedSharding(AbstractMesh((2,), ("x",)), PartitionSpec("x"))
    jitted = jax.jit(lambda x: x, in_shardings=sharding, donate_argnums=0)
    case = make(jitted, X)
    assert (case.function, compute_donated(case)) == (jitted, (0,))


def test_donation_set_on_an_argument_is_kept() -> None:
    case = make(lambda x, y: (x, y), Arg(shape=(4,), donate=True), X)
    assert compute_donated(case) == (0,)


def test_the_mesh_comes_from_the_arguments_shardings_unless_given() -> None:
    sharding = NamedSharding(AbstractMesh((4,), ("data",)), PartitionSpec("data"))
    spec = jax.ShapeDtypeStruct((8,), "float32", sharding=sharding)
    assert make(abs, spec).mesh == {"data": 4}
    assert make(abs, spec).args[0].partition == ("data",)
    assert make(abs, spec, mesh={"data": 2}).mesh == {"data": 2}
    assert make(abs, X, mesh=(8, 2)).mesh == {"x": 8, "y": 2}


def draw(*args: Any, number: int = 0) -> tuple[Any, ...]:
    return draw_arguments(make(abs, *args), number)


def test_integers_are_drawn_as_valid_labels_and_booleans_of_both_kinds() -> None:
    labels, mask = draw(Arg(shape=(64,), dtype="int32"), Arg(shape=(64,), dtype="bool"))
    assert set(np.asarray(labels).tolist()) == {0, 1}
    assert set(np.asarray(mask).tolist()) == {True, False}


@pytest.mark.parametrize(
    "optimizer", [optax.adamw(1e-3), optax.rmsprop(1e-3), optax.adagrad(1e-3), optax.adafactor(1e-3)]
)
def test_an_optimizer_step_on_default_draws_has_no_nan(optimizer: Any) -> None:
    params = {"w": jax.ShapeDtypeStruct((128, 256), jnp.float32), "v": jax.ShapeDtypeStruct((4,), jnp.float32)}
    as_args = lambda tree: jax.tree.map(lambda a: Arg(shape=a.shape, dtype=a.dtype), tree)  # noqa: E731
    given = as_args((params, params, jax.eval_shape(optimizer.init, params)))
    grads, weights, state = draw(*given)
    updates, state = optimizer.update(grads, state, weights)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((updates, state)))
    assert bool((weights["v"] < 0).any())


def test_a_second_moment_in_a_user_s_class_is_not_negative_and_attention_values_may_be() -> None:
    state, params = draw(Moments(X, {"w": X}), {"v": X})
    assert bool((state.v["w"] >= 0).all())
    assert bool((state.m < 0).any())
    assert bool((params["v"] < 0).any())


def test_an_explicit_draw_is_kept() -> None:
    (state,) = draw(Moments(X, Arg(shape=(4,), draw=Draw(kind="normal"))))
    assert bool((state.v < 0).any())


def test_an_argument_s_own_values_are_used_in_every_draw() -> None:
    labels = np.array([5, 0, 3], np.int32)
    for number in (0, 1):
        assert draw(labels, jnp.arange(3.0), number=number)[0].tolist() == labels.tolist()
    assert compute_draws(make(abs, labels), "/a.py") != compute_draws(make(abs, labels + 1), "/a.py")


def by_range(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.random.randint(key, shape, 7, 9)


def by_none(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jnp.zeros(())


def test_a_drawing_function_gets_another_key_for_each_draw() -> None:
    arg = Arg(shape=(32,), dtype="int8", draw=by_range)
    (first,), (second,) = draw(arg), draw(arg, number=1)
    assert set(first.tolist()) == {7, 8} == set(second.tolist())
    assert (str(first.dtype), first.tolist() == second.tolist()) == ("int8", False)


def test_a_drawing_function_with_a_wrong_result_is_an_error_with_its_reason() -> None:
    with pytest.raises(InputError, match=r"to return the Arg's shape \[4\] but got \[\]"):
        draw(Arg(shape=(4,), draw=by_none))
    with pytest.raises(CaseError, match=r"test_normalized_case.py:\d+: ZeroDivisionError"):
        draw(Arg(shape=(4,), draw=lambda key, shape, dtype: 1 // 0))


def test_cases_draw_the_same_only_if_their_functions_are_known_to_be_the_same() -> None:
    def hash_of(function: Any, case_id: str) -> str:
        case = Case(name=case_id, function=abs, args=(Arg(shape=(4,), draw=function),))
        return compute_draws(case, "/a.py")

    assert hash_of(by_range, "a") == hash_of(by_range, "b")
    assert hash_of(by_range, "a") != hash_of(by_none, "a")
    assert hash_of(lambda *_: 0, "a") != hash_of(lambda *_: 0, "b")
