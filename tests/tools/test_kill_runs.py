"""Interrupts runs at a few moments; the nightly run takes 50."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kill_runs import check, interrupt, list_leftovers

ROOT = Path(__file__).parents[2]
TINY = "from ligerdiag import Arg, Case\nCASE = Case(name='tiny', function=lambda x: x + 1, args=(Arg(shape=(4,)),))\n"


@pytest.mark.usefixtures("own_templates")
@pytest.mark.parametrize(("kind", "moment", "size"), [("parent", 2.5, 0), ("worker", 3.5, 0), ("full", 0.0, 200)])
def test_a_run_after_an_interrupted_one_is_not_affected_by_it(
    kind: str, moment: float, size: int, tmp_path: Path
) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    interrupt([str(tmp_path / "tiny.py")], kind, moment, size, tmp_path)
    answer = check([str(tmp_path / "tiny.py")], tmp_path)
    assert answer.keys() == {"tiny"}, answer
    status, outputs, error, findings = answer["tiny"]
    assert (status, list(outputs.values()), error, findings) == ("nothing to check", ["fresh"], "", [])
    assert list_leftovers(tmp_path) == ()


def test_a_real_full_disk_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    command = [sys.executable, "-m", "tools.kill_runs", str(tmp_path / "tiny.py"), "--moments", "1", "--kinds", "full"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    if done.stdout.startswith("no mount namespace"):
        pytest.skip(done.stdout.splitlines()[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("| full | 1 | 1 |\n")


def test_incomplete_files_count_as_left_behind(tmp_path: Path) -> None:
    for name in ("tmp", "cache/artifacts/half", "cache/effects", "cache/triton/key/tmp.pid_7", "cache/locks"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "cache/effects/.ab",
        "cache/effects/half.json",
        "cache/locks/run-1.lock",
        "tmp/x",
        "cache/locks/key.lock",
    ):
        (tmp_path / name).write_text("{")
    assert {Path(name).name for name in list_leftovers(tmp_path)} == {
        *("half", "tmp.pid_7", ".ab", "half.json", "run-1.lock", "x")
    }
