"""A small Llama's loss and gradients on two GPUs: schedule, replay and both devices agree on each output."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import FAR
from tests.gpu.llama_on_two import CASES, DEVICES

ROOT = Path(__file__).parents[2]
FILE = "tests/gpu/llama_on_two.py"
GPUS = len(list(Path("/dev").glob("nvidia[0-9]*")))
BF16 = 2e-2
"""Relative error in norm: the weights are bf16, and some roundings go the other way."""

pytestmark = pytest.mark.skipif(GPUS < DEVICES, reason=f"needs {DEVICES} NVIDIA GPUs, and this machine has {GPUS}")


@pytest.mark.parametrize("case_id", [case.id for case in CASES])
def test_schedule_replay_and_devices_agree(case_id: str, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "highest")
    options = api.CheckOptions(selectors=(f"{FILE}::{case_id}",), cache_directory=shared_cache, device=True)
    (case,) = api.check(options).cases
    assert case.device is not None
    assert (case.device.error, case.device.count, case.disagreements) == ("", DEVICES, ())
    verdicts = {name: case.device.verdicts[name] in ("stale", "clobbered") for name in case.outputs}
    wrong = {name: not all(error < FAR for error in output.errors) for name, output in case.device.outputs.items()}
    assert wrong == verdicts
    stale = case_id.split("-")[1].rstrip("]") in ("hidden", "trivial", "barrier")
    assert [name for name, found in wrong.items() if not found] == (["loss"] if stale else list(wrong))
    errors = {name: output.replay_error for name, output in case.device.outputs.items()}
    assert {name: error for name, error in errors.items() if error is None or not error <= BF16} == {}
