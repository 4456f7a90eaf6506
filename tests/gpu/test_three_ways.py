"""Schedule, replay and device agree on the small cases, and replay computes the same numbers as the device."""

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
"""Relative error in norm with products in full precision. f32: sums in another order, and functions that differ by ulps;
bf16: roundings to 8 bits that go the other way."""
UNSTEADY = "constant[hidden]"
"""Its kernel overwrites a constant that the executable keeps, so a second execution starts with the first one's
contents (LD017).
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_cases(metafunc, SELECTORS)


def test_schedule_replay_and_device_agree(case_id: str, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_unsteady_case_is_among_them(case_ids: tuple[str, ...]) -> None:
    assert UNSTEADY in case_ids
