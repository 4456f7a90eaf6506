"""The peak that ligerdiag adds up over a schedule is that of XLA's own memory analysis."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "compare_peaks.py"
FEW = (
    "copied_carries:leapfrog",
    "copied_carries:nested_jacobi",
    "copied_carries:attention_layers",
    "in_place_work:layers_with_remat",
    "more_loops:sharded_step",
)
MANY = ("branches", "copied_carries", "in_place_work", "more_loops", "training")


@pytest.mark.parametrize(("files", "count"), [(FEW, len(FEW)), pytest.param(MANY, 113, marks=pytest.mark.nightly)])
def test_the_peak_of_each_program_is_that_of_xlas_memory_analysis(files: tuple[str, ...], count: int) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *files], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    ratios: dict[str, float] = {}
    for line in done.stdout.splitlines():
        name, expected, actual = line.split()
        ratios[name] = int(actual) / int(expected)
    assert len(ratios) == count
    # XLA also counts tables of pointers, of a few bytes each
    assert {name: ratio for name, ratio in ratios.items() if not 0.9999 <= ratio <= 1} == {}
