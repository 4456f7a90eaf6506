"""A campaign on GPUs divides its programs among them and reports contradictions by the device; tested without a GPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.device.device_jobs import ComparisonAnswer, DeviceAnswer
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Attribution, DeviceOutput, Verdict
from ligerdiag.model.report import Coverage, Inspection
from tools.fuzz import gpu_campaign
from tools.fuzz.gpu_campaign import DeviceRow, describe_run, load_device_rows, make_device_environment, plan_workloads
from tools.fuzz.judged_programs import FuzzOptions, JudgedProgram, find_outcomes
from tools.fuzz.processes import append_row, count_lines, run_workloads

OPTIONS = FuzzOptions(directory=Path("out"), jobs=8, minutes=1)
ROW = DeviceRow(judged=JudgedProgram(seed=5, target="device"), devices=1)
ANSWER = DeviceAnswer(key="k", device="NVIDIA H200", count=1, milliseconds=1.0, timed_runs=1, unsteady={"v1": 0.0})


def test_a_program_of_one_device_gets_one_gpu_and_others_get_all() -> None:
    missing = {seed: 2 if seed % 4 == 0 else 1 for seed in range(100)}
    workloads = plan_workloads(missing, ("GPU-a", "GPU-b"), OPTIONS)
    assert sorted(seed for workload in workloads for seed in workload.seeds) == list(missing)
    for workload in workloads:
        assert {missing[seed] for seed in workload.seeds} == {2 if "," in workload.gpus else 1}
    assert (
        [workload.gpus for workload in workloads].count("GPU-a")
        == [workload.gpus for workload in workloads].count("GPU-b")
        == 3
    )
    assert [workload.gpus for workload in workloads].count("GPU-a,GPU-b") == 2
    assert plan_workloads({}, ("GPU-a",), OPTIONS) == ()


def test_a_process_sees_only_its_gpus_and_does_not_autotune(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_of_the_user=1")
    environment = make_device_environment("GPU-a")
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert environment["XLA_FLAGS"] == "--xla_of_the_user=1 --xla_gpu_autotune_level=0"


@pytest.mark.parametrize(("attribution", "error", "kinds"), [("stale", 0.8, ["fresh-stale-v1"]), ("fresh", 1e-6, [])])
def test_a_wrong_output_that_is_called_right_is_a_contradiction(
    tmp_path: Path, attribution: str, error: float, kinds: list[str]
) -> None:
    numbers = DeviceOutput(
        errors=(error,), attribution=Attribution(attribution), tolerance=0.02, distance=0.8, replay_error=0.0
    )
    row = describe_run(ROW, make_inspection({"v1": Verdict.FRESH}), ComparisonAnswer(outputs={"v1": numbers}), ANSWER)
    assert list(row.judged.contradictions) == kinds
    assert row.judged.outputs == {"v1": ("fresh", attribution)}
    append_row(tmp_path / "device.jsonl", row)
    append_row(tmp_path / "device.jsonl", replace(row, judged=replace(row.judged, seed=6)))
    assert count_lines(tmp_path / "device.jsonl") == 2
    assert load_device_rows(tmp_path / "device.jsonl") == {5: row.judged, 6: replace(row.judged, seed=6)}


def test_numbers_that_rounding_explains_contradict_nothing() -> None:
    row = JudgedProgram(
        seed=5,
        target="device",
        outputs={"v1": ("fresh", "neither"), "v2": ("fresh", "neither")},
        contradictions={"fresh-neither-v1": "v1", "fresh-neither-v2": "v2"},
    )
    settled = gpu_campaign._settle(row, ["v1"])
    assert list(settled.contradictions) == ["fresh-neither-v2"]
    assert find_outcomes(replace(settled, looks={"v1": ("right", 0.1), "v2": ("right", 0.1)})) == {
        "v1": "right",
        "v2": "wrong",
    }


def test_without_a_gpu_no_campaign_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_campaign, "require_gpu", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="nvidia-smi"):
        gpu_campaign.run_device_campaign(replace(OPTIONS, directory=tmp_path), lambda _: None)


def test_a_process_that_fails_is_reported() -> None:
    (workload,) = plan_workloads({1: 1}, ("GPU-a",), OPTIONS)
    progress: list[Any] = []
    (fault,) = run_workloads("ligerdiag.no_such_module", [workload], Path("none"), progress.append)
    assert "exit code 1" in fault
    assert "no_such_module" in fault
    assert [one.total for one in progress] == [1]


def make_inspection(outputs: dict[str, Verdict]) -> Inspection:
    return Inspection(outputs=outputs, findings=(), coverage=Coverage())
