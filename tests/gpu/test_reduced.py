"""The files that `ligerdiag reduce` wrote for three programs fail on a GPU as they say: the compiled program gives other
values than the same operations in program order.

`reduced/` has the files as they were written, by

    ligerdiag reduce 'seed_flce[False-float32-True-1-4-32-16]' --output bias.py
    ligerdiag reduce folded.py --output folded.py              # the first example of LD002
    ligerdiag reduce 'sharded_flce[vocabulary-trivial-2]' --output sharded.py
"""

import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parent / "reduced"
DEVICES = {"bias": 1, "folded": 1, "sharded": 2}


@pytest.mark.parametrize("name", DEVICES)
def test_a_reduced_program_fails_on_the_gpu(name: str) -> None:
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if gpus < DEVICES[name]:
        pytest.skip(f"the program is for {DEVICES[name]} GPUs and this machine has {gpus}")
    ran = subprocess.run(
        [sys.executable, str(FILES / f"{name}.py")], capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 1, ran.stderr
    assert "AssertionError: output 0 has a relative error of" in ran.stderr, ran.stderr
