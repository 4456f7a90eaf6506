"""If the output cannot be written, a command prints one line, sets its exit code, and shows no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = f"{sys.executable} -c 'from ligerdiag.cli.main import main; main()'"


def run(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "LIGERDIAG_CACHE_DIR": str(cwd / "cache")}
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("words", ["targets", "explain LD001", "toolchains"])
def test_a_full_device_is_a_one_line_error(words: str, tmp_path: Path) -> None:
    done = run(f"{RUN} {words} > /dev/full", tmp_path)
    assert done.stderr == "error: cannot write to standard output: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.parametrize("where", [">&-", ">&- 2>&-", "<&- >&- 2>&-", "2>&-", "2>/dev/full"])
def test_a_closed_stream_is_not_an_error(where: str, tmp_path: Path) -> None:
    done = run(f"{RUN} targets {where}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_file_receives_the_output_of_a_closed_stream(tmp_path: Path) -> None:
    (tmp_path / "step.txt").write_text("HloModule step\n")
    done = run(f"{RUN} inspect step.txt --format json --output out.json >&- 2>&-", tmp_path)
    assert done.returncode in (2, 3, 5), done.stderr
    assert (tmp_path / "step.txt").read_text() == "HloModule step\n"


@pytest.mark.parametrize("words", ["check", "inspect step.txt", "list", "diff a b", "targets"])
def test_a_deleted_current_folder_is_a_one_line_error(words: str, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = run(f"cd gone; rmdir ../gone; {RUN} {words}", tmp_path)
    assert done.stderr == "error: the working directory no longer exists: change to another one\n"
    assert (done.returncode, done.stdout) == (2, "")
