"""Compares the kernels of `kernels/`, in place, with Triton's own interpreter."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.triton_ir.oracle import Launch, run_oracle
from tests.replay.triton_ir.run import run_launch

ROOT = Path(__file__).parents[3] / "kernels"
_random = np.random.default_rng(11)


def _floats(*shape: int) -> Any:
    return _random.standard_normal(shape).astype(np.float32)


def _make_targets(rows: int, vocabulary: int) -> Any:
    targets = _random.integers(0, vocabulary, rows).astype(np.int32)
    targets[::4] = -100
    targets[1] = vocabulary + 3
    return targets


LAUNCHES = {
    "cross_entropy": Launch(
        kernel="cross_entropy_kernel",
        arguments={
            "logits_ptr": _floats(9, 300),
            "targets_ptr": _make_targets(9, 300),
            "scale_ptr": _floats(9),
            "loss_ptr": _floats(9),
            "lse_ptr": _floats(9),
        },
        constants={
            "destination_ptr": None,
            "VOCABULARY": 300,
            "IGNORE_INDEX": -100,
            "SMOOTHING": 0.1,
            "SOFT_CAP": 2.0,
            "Z_LOSS": 0.01,
            "SCALE_STRIDE": 1,
            "BLOCK": 128,
            "LANES": 4,
        },
        grid=(9, 1, 1),
    ),
    "seed_flce": Launch(
        kernel="cross_entropy_kernel",
        arguments={
            "logits_ptr": _floats(9, 300),
            "targets_ptr": _make_targets(9, 300),
            "count_ptr": np.full(1, 6, np.float32),
            "loss_ptr": _floats(9),
        },
        constants={
            "destination_ptr": None,
            "VOCABULARY": 300,
            "IGNORE_INDEX": -100,
            "LABEL_SMOOTHING": 0.1,
            "MEAN": True,
            "BLOCK": 128,
        },
        grid=(9, 1, 1),
    ),
    "accumulate": Launch(
        kernel="add_sum_kernel",
        arguments={
            "values_ptr": _random.integers(-9, 9, 100).astype(np.float32),
            "total_ptr": _random.integers(-9, 9, 1).astype(np.float32),
            "copy_ptr": _floats(100),
        },
        constants={"destination_ptr": None, "SIZE": 100, "BLOCK": 32},
        grid=(4, 1, 1),
    ),
    "add_scaled": Launch(
        kernel="add_scaled_kernel",
        arguments={
            "residual_ptr": _floats(100),
            "factor_ptr": _floats(1),
            "direction_ptr": _floats(100),
            "updated_ptr": _floats(100),
            "squares_ptr": _floats(4),
        },
        constants={"destination_ptr": None, "SIZE": 100, "BLOCK": 32},
        grid=(4, 1, 1),
    ),
    "partial_write": Launch(
        kernel="multiply_range_kernel",
        arguments={"x_ptr": _floats(64), "y_ptr": _floats(64)},
        constants={"destination_ptr": None, "START": 5, "END": 30, "BLOCK": 32},
    ),
    "permute_rows": Launch(
        kernel="permute_rows_kernel",
        arguments={"values_ptr": _floats(6, 20), "source_ptr": np.array([3, 1, 0, 5, 2, 4], np.int32)},
        constants={"destination_ptr": None, "COLUMNS": 20, "BLOCK": 32},
        grid=(6, 1, 1),
    ),
    "scale": Launch(
        kernel="scale_kernel",
        arguments={"values_ptr": _floats(100), "factor_ptr": _floats(1)},
        constants={"destination_ptr": None, "SIZE": 100, "BLOCK": 32},
        grid=(4, 1, 1),
    ),
    "tuned_scale": Launch(
        kernel="double_rows_kernel",
        arguments={"rows_ptr": _floats(6, 20), "sums_ptr": _floats(6)},
        constants={"destination_ptr": None, "COLUMNS": 20, "BLOCK": 32},
        grid=(6, 1, 1),
    ),
}


@pytest.mark.parametrize("folder", LAUNCHES)
def test_a_kernel_of_this_project_equals_tritons_interpreter(folder: str, tmp_path: Path) -> None:
    file, launch = ROOT / folder / "triton.py", LAUNCHES[folder]
    (wanted,) = run_oracle(file, [launch], tmp_path)
    assert not isinstance(wanted, str), wanted
    for optimized in (False, True):
        found, outcome = run_launch(file, launch, optimized=optimized)
        for name, array in found.items():
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)
        assert not outcome.out_of_bounds
        assert (outcome.meeting is not None) == (folder == "permute_rows")


def test_an_address_may_pass_through_an_integer() -> None:
    values, factor = _floats(100), _floats(1)
    arguments = {"values_ptr": values, "factor_ptr": factor, "total_ptr": _floats(4)}
    constants = {"destination_ptr": None, "SIZE": 100, "BLOCK": 32}
    launch = Launch(kernel="scale_by_address_kernel", arguments=arguments, constants=constants, grid=(4, 1, 1))
    found, _ = run_launch(ROOT / "scale" / "triton.py", launch)
    np.testing.assert_array_equal(found["values_ptr"], values * factor)
