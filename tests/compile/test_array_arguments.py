"""Array arguments of a live function become records, in any container."""

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from ligerdiag.compile.cases import array_records
from ligerdiag.compile.cases import function_pickler as array_arguments
from ligerdiag.compile.cases.arguments import draw_arguments, draw_array
from ligerdiag.compile.cases.function_pickler import ArgumentPickler, FunctionPickler, pickle_live
from ligerdiag.compile.cases.live_functions import list_unimportable
from ligerdiag.errors import InputError
from ligerdiag.model.case import Arg, Case, Draw, Values

AUTO = AbstractMesh((4,), ("x",), axis_types=(AxisType.Auto,))


class Pair(NamedTuple):
    left: Any
    right: Any


def send(value: Any) -> tuple[Any, list[Mapping[str, int]]]:
    """Returns the unpickled value and the meshes of its arrays."""
    made: list[ArgumentPickler] = []

    def make(stream: Any, by_value: frozenset[str]) -> FunctionPickler:
        made.append(ArgumentPickler(stream, by_value))
        return made[-1]

    data = pickle_live(value, list_unimportable("/"), make).data
    return pickle.loads(data), made[0].meshes


@pytest.mark.parametrize(
    ("array", "shape", "dtype", "draw"),
    [
        (np.zeros((2, 3), np.float32), (2, 3), "float32", Draw(kind="zeros")),
        (np.array([0.5, 2.0]), (2,), "float32", Draw(kind="uniform", low=0.5, high=2.0)),
        (np.array([-3.0, 4.0]), (2,), "float32", Draw(kind="normal", scale=3.5)),
        (np.array([5, 7]), (2,), "int32", Draw(kind="randint", low=5, high=8)),
        (np.array([2**40, -(2**40)]), (2,), "int32", Draw(kind="randint", low=-(2**31), high=2**31 - 1)),
        (np.array([True, False, False, False]), (4,), "bool", Draw(kind="bernoulli", scale=0.25)),
        (np.array([np.nan, 1.0]), (2,), "float32", Draw()),
        (np.empty((0, 4), np.float32), (0, 4), "float32", Draw()),
        (np.float32(3.0), (), "float32", Draw(kind="uniform", low=3.0, high=3.0)),
    ],
)
def test_an_array_too_large_to_be_passed_becomes_its_shape_dtype_and_range(
    array: Any, shape: tuple[int, ...], dtype: str, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (array_records, array_arguments):
        monkeypatch.setattr(module, "MAXIMUM_VALUE_BYTES", 1)
    assert send(array) == (Arg(shape=shape, dtype=dtype, draw=draw), [])


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([[5, 7], [0, 2]], np.int64), "int32"),
        (np.array([True, False]), "bool"),
        (np.array([-3.0, np.inf]), "float32"),
        (np.array([[1.0, 2.0], [3.0, 4.0]]).T, "float32"),
        (jnp.array([1.5, -2.0], jnp.bfloat16), "bfloat16"),
    ],
)
def test_an_array_has_its_own_values_in_every_draw(array: Any, dtype: str) -> None:
    arg, _ = send(array)
    for number in (0, 1):
        drawn = draw_array(number, arg)
        assert (str(drawn.dtype), np.asarray(drawn).tolist()) == (dtype, np.asarray(array).tolist())


def test_floats_are_passed_up_to_a_total_size_and_labels_always(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (array_records, array_arguments):
        monkeypatch.setattr(module, "MAXIMUM_VALUE_BYTES", 12)
    first, second, labels = send(
        [np.full(2, 1.5, np.float32), np.full(2, 2.5, np.float32), np.array([5, 3], np.int32)]
    )[0]
    assert isinstance(first.draw, Values)
    assert second.draw == Draw(kind="uniform", low=2.5, high=2.5)
    assert isinstance(labels.draw, Values)


def test_jax_arrays_and_shape_structs_are_recorded_alike() -> None:
    spec = jax.ShapeDtypeStruct((4,), jnp.bfloat16)
    assert send(spec)[0] == Arg(shape=(4,), dtype="bfloat16")
    assert send(jnp.zeros(4, "bfloat16"))[0] == Arg(shape=(4,), dtype="bfloat16", draw=Draw(kind="zeros"))
    assert send(jax.ShapeDtypeStruct((2,), "int8"))[0].draw == Draw(kind="randint", low=0, high=2)
    assert send(jnp.asarray(2.0))[0].weak


def test_containers_and_their_non_array_values_are_kept() -> None:
    own = Arg(shape=(3,), draw=Draw(seed=5))
    value = {"a": [np.zeros(1), own], "b": Pair(np.zeros(1), 0.5), "c": OrderedDict(x=np.zeros(1)), "d": None}
    zeros = Arg(shape=(1,), dtype="float32", draw=Draw(kind="zeros"))
    assert send(value)[0] == {"a": [zeros, own], "b": Pair(zeros, 0.5), "c": OrderedDict(x=zeros), "d": None}


def test_a_sharding_gives_partition_and_mesh() -> None:
    mesh = AbstractMesh((4, 2), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec(None, ("data", "model")))
    arg, meshes = send(jax.ShapeDtypeStruct((8, 8), "float32", sharding=sharding))
    assert arg.partition == (None, ("data", "model"))
    assert meshes == [{"data": 4, "model": 2}]


def test_an_axis_left_to_the_compiler_is_refused() -> None:
    sharding = NamedSharding(AUTO, PartitionSpec(PartitionSpec.UNCONSTRAINED))
    with pytest.raises(InputError, match="expected mesh axes in the sharding"):
        send(jax.ShapeDtypeStruct((8,), "float32", sharding=sharding))


@pytest.mark.parametrize("generator", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_typed_keys_keep_their_values(generator: str) -> None:
    keys = jax.random.split(jax.random.key(3, impl=generator), 2)
    drawn: Any = draw_array(0, send(keys)[0])
    assert drawn.dtype == keys.dtype
    assert (jax.random.key_data(drawn) == jax.random.key_data(keys)).all()
    other: Any = [draw_array(n, send(jax.ShapeDtypeStruct((), keys.dtype))[0]) for n in (0, 1)]
    assert (jax.random.key_data(other[0]) != jax.random.key_data(other[1])).any()


def test_keys_of_an_unknown_generator_are_refused_with_a_remedy() -> None:
    with pytest.raises(InputError, match=r"does not come with JAX: pass `jax\.random\.key_data"):
        draw_array(0, Arg(shape=(), dtype="key<mine>"))


def test_an_old_key_is_an_array_of_numbers() -> None:
    assert send(jax.random.PRNGKey(0))[0].shape == (2,)


def test_no_two_arguments_have_equal_numbers_unless_a_seed_says_so() -> None:
    drawn = draw_arguments(
        Case(
            name="pair",
            function=abs,
            args=(Arg(shape=(4, 8)), {"k": Arg(shape=(8, 4))}, Arg(shape=(4, 8)), Arg(shape=(4,))),
        )
    )
    first, second, third = (np.asarray(one).reshape(-1) for one in (drawn[0], drawn[1]["k"], drawn[2]))
    assert not np.isclose(first, second).any()
    assert not np.isclose(first, third).any()
    assert not np.isclose(second, third).any()
    (weight, copy) = draw_arguments(
        Case(name="cast", function=abs, args=(Arg(shape=(4, 8)), Arg(shape=(4, 8), dtype="bfloat16")))
    )
    assert not np.isclose(np.asarray(weight), np.asarray(copy, np.float32), rtol=1e-2).any()
    seeded = Arg(shape=(4, 8), draw=Draw(seed=0))
    same = draw_arguments(Case(name="same", function=abs, args=(seeded, seeded)))
    assert np.array_equal(same[0], same[1])
    assert np.array_equal(same[0], drawn[0])
