"""The peak that ligerdiag adds up over a schedule is that of XLA's own memory analysis."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "compare_peaks.py"
FILES = ("branches", "copied_carries", "training")


def test_the_peak_of_each_program_is_that_of_xlas_memory_analysis() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *FILES], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    ratios: dict[str, float] = {}
    for line in done.stdout.splitlines():
        name, expected, actual = line.split()
        ratios[name] = int(actual) / int(expected)
    assert len(ratios) == 48
    assert {name: ratio for name, ratio in ratios.items() if not 0.98 <= ratio <= 1.001} == {}
