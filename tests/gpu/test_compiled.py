"""`ligerdiag.check` of a `jax.stages.Compiled` that the GPU's own compiler made, compared with what the GPU computes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.compiled_run import PROGRAMS, X

ROOT = Path(__file__).parents[2]
INTENDED = {"old": X + 1, "back": 2 * (X + 1) * 3}
STALE = {"old": X + 1, "back": (X + 1) * 3}
"""The outputs if `back` is computed from the contents that the kernel overwrites. The numbers are small integers, so every
result is exact.
"""
OUTPUTS = sorted(INTENDED)
"""The names of the outputs in the order in which JAX flattens them; a compiled module has only numbers for them."""

type Outputs = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Outputs]]:
    """Returns the reports and the outputs of the GPU."""
    folder = tmp_path_factory.mktemp("compiled")
    run = subprocess.run(
        [sys.executable, "-m", "tests.gpu.compiled_run", folder / "cache", folder],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    outputs: dict[str, Outputs] = {}
    for name in PROGRAMS:
        with np.load(folder / f"{name}.npz") as found:
            outputs[name] = {key: found[key] for key in found.files}
    return json.loads((folder / "reports.json").read_text()), outputs


def list_wrong(outputs: Outputs) -> list[str]:
    """Returns the names of the outputs that differ from the intended ones."""
    return [name for name in OUTPUTS if not np.array_equal(outputs[name], INTENDED[name])]


def test_the_gpu_computes_the_stale_output_of_the_hidden_program_only(judged: Any) -> None:
    _, outputs = judged
    assert list_wrong(outputs["declared"]) == []
    assert list_wrong(outputs["hidden"]) == ["back"]
    np.testing.assert_array_equal(outputs["hidden"]["back"], STALE["back"])


def test_the_report_is_about_the_module_of_this_gpu(judged: Any) -> None:
    reports, _ = judged
    for name in PROGRAMS:
        report = reports[name]
        assert (report["id"], report["target"].rstrip("a")) == (name, f"sm_{reports['capability']}")
        assert len(report["outputs"]) == len(OUTPUTS), report
        assert not any("inconsistent" in line for line in report["not_covered"]), report


def test_an_executable_of_a_gpu_hands_out_no_buffer_assignment(judged: Any) -> None:
    """Seen with JAX 0.11.2 on an H200. If a release does, the verdicts on it may rely on XLA's own memory layout."""
    reports, _ = judged
    assert not any(reports[name]["buffer_assignment"] for name in PROGRAMS), reports


def test_no_output_that_the_gpu_computes_wrong_is_called_right(judged: Any) -> None:
    """Without the program nobody knows who should see a hidden write: the report says unknown, and where the write is."""
    reports, outputs = judged
    verdicts = dict(zip(OUTPUTS, reports["hidden"]["outputs"], strict=True))
    for name in list_wrong(outputs["hidden"]):
        assert verdicts[name] not in ("fresh", "latent"), verdicts
    assert reports["hidden"]["hidden_writes"] == 1
    assert reports["hidden"]["status"] in ("inconclusive", "findings"), reports["hidden"]
    assert "LD006" in reports["hidden"]["findings"], reports["hidden"]
    assert any("no module from before the optimizations" in line for line in reports["hidden"]["not_covered"])


def test_a_declared_write_is_fresh_and_has_no_finding(judged: Any) -> None:
    reports, _ = judged
    report = reports["declared"]
    assert report["outputs"] == ["fresh", "fresh"], report
    assert (report["hidden_writes"], report["findings"]) == (0, []), report
