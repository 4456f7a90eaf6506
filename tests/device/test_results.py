"""A device's results survive their file bit for bit, or are refused."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ligerdiag.device.device_jobs import load_results, write_results
from ligerdiag.errors import ArtifactError

DTYPES = (
    np.float32, np.float64, np.float16, np.complex64, np.int8, np.int32, np.int64, np.uint32,
    np.bool_, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
)  # fmt: skip


def draw(shape: tuple[int, ...], dtype: Any) -> Any:
    """Returns numbers of both signs; for a floating point dtype with NaN, infinity and negative zero if it has them."""
    values = np.random.default_rng(0).normal(size=shape) * 4
    array = (values > 0 if dtype is np.bool_ else values.round(1)).astype(dtype)
    if np.dtype(dtype).kind not in "biu" and array.size > 3:
        array.flat[:3] = np.array([np.nan, np.inf, -0.0]).astype(dtype)
    return array


def are_equal(one: Any, two: Any) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(3, 5), (7,), (), (0,), (2, 0, 3)], ids=str)
def test_every_dtype_and_shape_comes_back_bit_for_bit(shape: tuple[int, ...], dtype: Any, tmp_path: Path) -> None:
    array = draw(shape, dtype)
    write_results(tmp_path, 0, {"y": array})
    found = load_results(tmp_path, 0, {"y": np.empty_like(array)})
    assert found.keys() == {"y"}
    assert are_equal(found["y"], array)


def test_a_view_of_another_order_comes_back_in_its_own(tmp_path: Path) -> None:
    array = draw((4, 6), np.float32).T[::2]
    write_results(tmp_path, 0, {"y": array})
    assert are_equal(load_results(tmp_path, 0, {"y": array})["y"], np.ascontiguousarray(array))


def test_outputs_are_identified_by_their_order_not_their_names(tmp_path: Path) -> None:
    results = {"grads/w": draw((2, 3), np.float32), "file": draw((), np.int32), "": draw((4,), np.bool_)}
    write_results(tmp_path, 0, results)
    found = load_results(tmp_path, 0, results)
    assert list(found) == list(results)
    assert all(are_equal(found[name], array) for name, array in results.items())


def test_each_draw_has_its_own_file(tmp_path: Path) -> None:
    one, two = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    write_results(tmp_path, 0, {"y": one})
    write_results(tmp_path, 1, {"y": two})
    assert [load_results(tmp_path, draw, {"y": one})["y"].tolist() for draw in range(2)] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "like",
    [
        {"y": np.zeros((3, 4), np.float32)},
        {"y": np.zeros((2, 2), np.float32)},
        {"y": np.zeros((2, 3), np.float64)},
        {"y": np.zeros((2, 3), ml_dtypes.bfloat16)},
        {"y": np.zeros((2, 3), np.float32), "more": np.zeros(1, np.float32)},
    ],
    ids=["more elements", "fewer elements", "wider", "narrower", "another output"],
)
def test_results_of_another_shape_or_dtype_are_refused(like: dict[str, Any], tmp_path: Path) -> None:
    write_results(tmp_path, 2, {"y": draw((2, 3), np.float32)})
    with pytest.raises(ArtifactError, match="the device's results for set 2 of the random arguments cannot be read"):
        load_results(tmp_path, 2, like)


def test_a_draw_that_was_not_written_is_refused(tmp_path: Path) -> None:
    write_results(tmp_path, 0, {"y": np.zeros(3)})
    with pytest.raises(ArtifactError, match="the device's results for set 1 of the random arguments cannot be read"):
        load_results(tmp_path, 1, {"y": np.zeros(3)})


@pytest.mark.parametrize("left", [0.0, 0.01, 0.3, 0.6, 0.99])
def test_a_truncated_file_is_refused(left: float, tmp_path: Path) -> None:
    array = draw((64,), np.float32)
    write_results(tmp_path, 0, {"y": array})
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    path.write_bytes(content[: int(left * len(content))])
    with pytest.raises(ArtifactError, match="the device's results for set 0 of the random arguments cannot be read"):
        load_results(tmp_path, 0, {"y": array})


def test_a_bit_that_was_flipped_on_the_way_is_noticed(tmp_path: Path) -> None:
    array = np.full(64, 1.5, np.float32)
    write_results(tmp_path, 0, {"y": array})
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    assert content.count(array.tobytes()) == 1
    path.write_bytes(content.replace(array.tobytes(), b"\x01" + array.tobytes()[1:]))
    with pytest.raises(ArtifactError, match="the device's results for set 0 of the random arguments cannot be read"):
        load_results(tmp_path, 0, {"y": array})
