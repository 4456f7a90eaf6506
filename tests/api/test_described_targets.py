"""Targets of the user's own, and targets that the toolchain cannot compile for, in a report."""

from pathlib import Path

import pytest

from ligerdiag.errors import InputError
from ligerdiag.model.report import Status
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.toolchains import this_gpu
from ligerdiag.toolchains.gpu_targets import load_target
from tests.api.conftest import ROOT, Check

CASE = f"{ROOT / 'cases' / 'seed_flce.py'}::seed_flce[False-float32-True-1-4-32-16]"
REASON = (
    "target `mi300` (gfx942) is a GPU of AMD: it needs a toolchain for ROCm, such as `--toolchain rocm`, but `jax-0.11.2`"
    " compiles for CUDA"
)


def test_a_description_of_the_users_own_gives_the_verdicts_of_its_gpu_and_says_what_xla_does_not_know(
    check: Check, tmp_path: Path
) -> None:
    path = tmp_path / "mine.txtpb"
    path.write_text(load_target("a100").description.replace("  core_count", "  core_cuont: 1\n  core_count"))
    report = check(CASE, targets=(str(path), "a100"), replay=False)
    mine, known = report.cases
    assert (mine.target, known.target) == ("mine", "a100")
    assert mine.outputs == known.outputs
    note = "XLA of `jax-0.11.2` compiles for `mine` without fields that it does not know: `gpu_device_info.core_cuont`"
    assert note in report.notes
    assert "core_cuont" in render_terminal(report)
    assert report.dropped_fields == ()


def test_a_gpu_of_another_platform_is_an_error_of_its_cases_alone(check: Check) -> None:
    report = check(CASE, targets=("mi300", "a100"), replay=False)
    amd, nvidia = report.cases
    assert (amd.status, nvidia.status) == (Status.ERROR, Status.EXPECTED)
    assert amd.error == REASON
    assert amd.outputs == {}
    assert not any("AMD" in note for note in report.notes), "there is no verdict for one"


def test_without_a_gpu_auto_is_an_input_error(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_gpu, "has_nvidia_device", lambda: False)
    this_gpu.describe_this_gpu.cache_clear()
    with pytest.raises(InputError, match="but this machine has none: name a target"):
        check(CASE, targets=("auto",))
