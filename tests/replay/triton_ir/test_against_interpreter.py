"""Each family of operations equals Triton's own interpreter bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ligerdiag.replay.triton_ir.outcome import GridOptions
from tests.replay.triton_ir import op_kernels
from tests.replay.triton_ir.op_launches import LAUNCHES
from tests.replay.triton_ir.oracle import run_oracle
from tests.replay.triton_ir.run import run_launch

FILE = Path(op_kernels.__file__)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    names = list(LAUNCHES)
    return dict(
        zip(names, run_oracle(FILE, [LAUNCHES[name] for name in names], tmp_path_factory.mktemp("oracle")), strict=True)
    )


def assert_same(found: dict[str, Any], wanted: Any) -> None:
    assert not isinstance(wanted, str), wanted
    for name, array in found.items():
        if isinstance(array, np.ndarray) and array.ndim:
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)


@pytest.mark.parametrize("optimized", [False, True], ids=["as written", "optimized"])
@pytest.mark.parametrize("name", LAUNCHES)
def test_an_operation_equals_tritons_interpreter(name: str, optimized: bool, oracle: dict[str, Any]) -> None:
    found, outcome = run_launch(FILE, LAUNCHES[name], optimized=optimized)
    assert_same(found, oracle[name])
    assert not outcome.out_of_bounds


@pytest.mark.parametrize("name", LAUNCHES)
def test_batches_of_one_program_agree(name: str, oracle: dict[str, Any]) -> None:
    found, _ = run_launch(FILE, LAUNCHES[name], options=GridOptions(batch_bytes=1))
    assert_same(found, oracle[name])
