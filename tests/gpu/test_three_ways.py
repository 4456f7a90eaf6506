"""Schedule, replay and device on the small cases: all three say the same, and replay computes what the device computes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.report.model import CheckReport, Status

ROOT = Path(__file__).parents[2]
SELECTORS = (
    "seed_flce[*-1-4-32-16]", "bf16_flce[*-1-4-32-16]", "flce_modes[*-1-4-32-16]", "saved_residual*", "two_losses*",
    "loop_carry*", "constant*", "undonated_parameter*", "dropped_backward*",
)  # fmt: skip
F32, BF16 = 1e-5, 2e-2
"""Relative error in norm, products in full precision: sums in another order and functions that differ by ulps; and
roundings to 8 bits that fall the other way."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckReport]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "highest")
        cache = tmp_path_factory.mktemp("cache")
        yield api.check(api.CheckOptions(selectors=SELECTORS, cache_directory=cache, device=True))


def test_every_case_was_run_and_is_as_it_expects(report: CheckReport) -> None:
    assert {case.id: case.device.error if case.device else "not run" for case in report.cases} == dict.fromkeys(
        [case.id for case in report.cases], ""
    )
    others = {case.id: (case.status, case.mismatch, case.disagreements) for case in report.cases}
    assert {name: why for name, why in others.items() if why[0] is not Status.EXPECTED} == {}


def test_replay_computes_what_the_device_computes(report: CheckReport) -> None:
    far: dict[str, tuple[str, float | None]] = {}
    for case in report.cases:
        assert case.device is not None
        tolerance = BF16 if "bf16" in case.id or "bfloat16" in case.id else F32
        for name, output in case.device.outputs.items():
            if output.replay_error is None or not output.replay_error <= tolerance:
                far[case.id] = name, output.replay_error
    assert far == {}


def test_a_run_is_steady_unless_a_kernel_overwrites_a_constant(report: CheckReport) -> None:
    """The executable keeps its constants: a second execution starts with what the first one left there (LD017)."""
    unsteady = {
        case.id
        for case in report.cases
        if case.device and any(output.unsteady for output in case.device.outputs.values())
    }
    assert unsteady == {"constant[hidden]"}
    assert {case.id for case in report.cases if "LD017" in {finding.rule for finding in case.findings}} == unsteady
