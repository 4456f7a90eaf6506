"""The memory that a program needs is what XLA itself says, and is there where XLA says nothing."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ligerdiag.compile.memory_analysis import compute_memory
from ligerdiag.compile.service import CompileResult

PROGRAMS = Path(__file__).parent / "programs"
MATRIX = 16 * 16 * 4


def test_the_figures_are_those_of_xlas_memory_analysis() -> None:
    script = PROGRAMS / "compare_memory.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    plain, computed, donated, computed_donated = (
        [int(word) for word in line.split()] for line in done.stdout.splitlines()[-4:]
    )
    assert computed == plain
    assert computed_donated == donated
    assert plain[3] == 0
    assert donated[3] == 64 * 64 * 4


def test_an_artifact_knows_its_memory(doubling: dict[str, CompileResult]) -> None:
    artifact = doubling["step"].artifact
    assert artifact is not None
    memory = artifact.provenance.memory
    assert set(memory) == {"argument", "output", "temp", "alias", "generated_code"}
    assert (memory["argument"], memory["alias"]) == (2 * MATRIX, 0)
    assert memory["output"] >= 3 * MATRIX + 4


def test_the_size_of_the_code_is_xlas_own_figure(doubling: dict[str, CompileResult]) -> None:
    artifact = doubling["step"].artifact
    assert artifact is not None
    compiled = SimpleNamespace(memory_analysis=lambda: SimpleNamespace(generated_code_size_in_bytes=77))
    assert compute_memory(artifact.optimized, compiled)["generated_code"] == 77
    silent = SimpleNamespace(memory_analysis=lambda: None)
    assert compute_memory(artifact.optimized, silent)["generated_code"] == 0


@pytest.mark.parametrize("data", [b"\xff", b"\x1a\xff\xff"])
def test_what_is_no_hlo_proto_has_no_memory(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "optimized.hlo.pb"
    path.write_bytes(data)
    assert compute_memory(path, None) == {}
