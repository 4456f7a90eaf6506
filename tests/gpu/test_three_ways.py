"""Schedule, replay and device on the small cases: all three say the same, and replay computes what the device computes."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.artifacts.artifact import UNOPTIMIZED
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import DTYPE_NAMES, iterate_leaf_shapes
from ligerdiag.model.report import Status
from tests.gpu.conftest import parametrize_cases

ROOT = Path(__file__).parents[2]
SELECTORS = (
    "seed_flce[*-1-4-32-16]", "bf16_flce[*-1-4-32-16]", "flce_modes[*-1-4-32-16]", "saved_residual*", "two_losses*",
    "loop_carry*", "constant*", "undonated_parameter*", "dropped_backward*", "cross_entropy_modes*", "chunked_flce*",
    "rms_norm*", "layer_norm*", "swiglu*", "geglu*", "rope*", "kl_div*", "jsd*", "fused_linear_jsd*",
)  # fmt: skip
F32, BF16 = 1e-5, 2e-2
"""Relative error in norm, products in full precision: sums in another order and functions that differ by ulps; and
roundings to 8 bits that fall the other way."""
UNSTEADY = "constant[hidden]"
"""Its kernel overwrites a constant: the executable keeps that, and a second execution starts with what the first one left
there (LD017)."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_cases(metafunc, SELECTORS)


def test_schedule_replay_and_device_say_the_same(
    case_id: str, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "highest")
    (case,) = api.check(api.CheckOptions(selectors=(case_id,), cache_directory=shared_cache, device=True)).cases
    assert case.device is not None
    assert case.device.error == ""
    assert case.status is Status.EXPECTED, (case.mismatch, case.disagreements)
    tolerance = BF16 if "bf16" in _list_dtypes(Path(case.artifact)) else F32
    errors = {name: output.replay_error for name, output in case.device.outputs.items()}
    assert {name: error for name, error in errors.items() if error is None or not error <= tolerance} == {}
    unsteady = any(output.unsteady for output in case.device.outputs.values())
    found = "LD017" in {finding.rule for finding in case.findings}
    assert (unsteady, found) == (case.id == UNSTEADY,) * 2


def _list_dtypes(artifact: Path) -> set[str]:
    """Returns the element types of everything that the program computes, in XLA's names."""
    program, _ = load_hlo(artifact / UNOPTIMIZED)
    leaves = (leaf for one in program.instructions for _, leaf in iterate_leaf_shapes(one.shape))
    return {DTYPE_NAMES.get(leaf.element_type, "") for leaf in leaves}


def test_the_case_that_is_not_steady_is_among_them(case_ids: tuple[str, ...]) -> None:
    assert UNSTEADY in case_ids
