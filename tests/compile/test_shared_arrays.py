"""Arguments that are one JAX array have one number, however they came to be one; equal addresses alone do not count."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ligerdiag.compile.cases.arguments import draw_arguments
from ligerdiag.compile.cases.library_modules import list_passed
from ligerdiag.compile.cases.normalize import normalize_case
from ligerdiag.compile.cases.shared_arrays import group_shared_arguments, number_shared_arrays
from ligerdiag.model.case import Arg, Case

LIBRARY: Any = jax
SIZE = (64, 64)


def make_array() -> Any:
    return jnp.ones(SIZE)


def place(array: Any) -> Any:
    """Returns another object for the same array."""
    return LIBRARY.device_put(array, LIBRARY.devices()[0])


def make_aligned() -> Any:
    """Returns a NumPy array whose memory JAX uses on a CPU, because its address suits it."""
    memory = np.ones(SIZE[0] * SIZE[1] + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + SIZE[0] * SIZE[1]].reshape(SIZE)


def use_one_memory() -> tuple[Any, ...]:
    given = make_aligned()
    return LIBRARY.device_put(given), LIBRARY.device_put(given)


def pass_twice(make: Callable[[Any], Any]) -> tuple[Any, ...]:
    array = make_array()
    return array, make(array)


def is_shared(arguments: tuple[Any, ...]) -> bool:
    shared = number_shared_arrays(jax.tree.leaves(arguments))
    return len(arguments) > len({shared.get(id(one), -number) for number, one in enumerate(arguments, start=1)})


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda x: x, id="itself"),
        pytest.param(lambda x: jax.tree.map(lambda leaf: leaf, x), id="tree.map"),
        pytest.param(jnp.asarray, id="asarray"),
        pytest.param(lambda x: x[:], id="slice"),
        pytest.param(lambda x: x.astype("float32"), id="astype"),
        pytest.param(place, id="device_put"),
    ],
)
def test_an_array_is_shared_with_what_copies_nothing(make: Callable[[Any], Any]) -> None:
    arguments = pass_twice(make)
    assert is_shared(arguments)
    with pytest.raises(RuntimeError, match="donate the same buffer twice"):  # JAX agrees
        jax.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))(*arguments)
    assert not any(one.is_deleted() for one in arguments)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(jnp.copy, id="copy"),
        pytest.param(jnp.array, id="array"),
        pytest.param(lambda x: x * 1, id="arithmetic"),
        pytest.param(LIBRARY.dlpack.from_dlpack, id="dlpack"),
    ],
)
def test_an_array_of_its_own_is_not_shared(make: Callable[[Any], Any]) -> None:
    arguments = pass_twice(make)
    assert not is_shared(arguments)
    jax.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))(*arguments)  # JAX agrees


def test_two_arrays_in_the_memory_of_numpy_are_not_one() -> None:
    arguments = use_one_memory()
    assert len({one.unsafe_buffer_pointer() for one in arguments}) == 1
    assert not is_shared(arguments)
    assert not any(one.is_deleted() for one in arguments)
    placed = arguments[0], place(arguments[0])
    assert is_shared(placed)


@pytest.mark.parametrize("value", [np.ones(SIZE), 3.0, jax.ShapeDtypeStruct(SIZE, "float32"), Arg(shape=SIZE)])
def test_only_jax_arrays_are_shared(value: Any) -> None:
    assert number_shared_arrays([value, value]) == {}


def test_a_deleted_array_is_left_out() -> None:
    array = make_array()
    array.delete()
    assert number_shared_arrays([array, array]) == {}


def test_a_random_key_and_an_empty_array_are_shared_as_objects() -> None:
    key, empty = LIBRARY.random.key(0), jnp.zeros((0, 4))
    assert len(set(number_shared_arrays([key, empty, key, empty]).values())) == 2


def test_groups_are_those_with_one_number() -> None:
    assert group_shared_arguments([0, 2, 1, 2, 0, 1, 3]) == ((1, 3), (2, 5))


def test_the_arguments_of_a_case_have_the_numbers_and_the_case_its_line() -> None:
    array, other = make_array(), make_array()
    state = {"average": array, "n": 3, "w": array}
    case = normalize_case(Case(name="shared", function=lambda state, x: x, args=(state, other)))
    assert [leaf.array for leaf in jax.tree.leaves(case.args)] == [1, 0, 1, 0]
    file, _, line = (case.made_at or "").rpartition(":")
    assert file == __file__
    assert 'Case(name="shared"' in Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]


def test_nnx_passes_a_variable_once() -> None:
    nnx = pytest.importorskip("flax.nnx")
    variable, raw = nnx.Param(make_array()), make_array()
    arguments = ((variable, variable), nnx.Param(raw), raw)
    assert len(list_passed(nnx.jit(lambda *_: 0), arguments)) == 3
    assert len(list_passed(jax.jit(lambda *_: 0), arguments)) == 4


def test_arguments_that_are_one_array_get_the_same_values() -> None:
    same = Arg(shape=(4,), array=1)
    first, alone, second = draw_arguments(Case(name="same", function=max, args=(same, Arg(shape=(4,)), same)))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, alone)
