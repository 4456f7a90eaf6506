"""The process that reads strangers' files changes none of ours, whatever it executes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.hostile import ROOT

HEAD = """
import os, signal, subprocess, sys
from pathlib import Path
from ligerdiag.sandbox.landlock import deny_changes
ours, own = Path(sys.argv[1]), Path.cwd()
try:
    deny_changes(own)
except OSError as error:
    sys.exit(f"skip: {error}")
"""
ATTACKS = {
    "writes": "(ours / 'entry').write_text('forged')",
    "truncates": "os.truncate(ours / 'entry', 0)",
    "removes": "(ours / 'entry').unlink()",
    "makes a file": "(ours / 'new').touch()",
    "makes a folder": "(ours / 'new').mkdir()",
    "makes a link": "(ours / 'new').symlink_to('entry')",
    "moves one in": "((own / 'forged').write_text('forged'), (own / 'forged').rename(ours / 'entry'))",
    "moves one out": "(ours / 'entry').rename(own / 'entry')",
    "links one out": "os.link(ours / 'entry', own / 'entry')",
    "writes through a link": "((own / 'link').symlink_to(ours / 'entry'), (own / 'link').write_text('forged'))",
    "makes a pipe in its own folder": "os.mkfifo(own / 'entry')",
    "moves its own folder": "own.rename(own.with_name('moved'))",
    "has another write": "subprocess.run(['sh', '-c', f'echo forged > {ours}/entry'], check=True)",
    "mounts": "subprocess.run(['unshare', '-m', 'mount', '--bind', own, ours], check=True)",
}
REFUSED = ("ermission denied", "Operation not permitted", "Invalid cross-device link")


def run(code: str, ours: Path, own: Path) -> "subprocess.CompletedProcess[str]":
    """Runs the code in a process that has given up access to everything outside of its folder."""
    command = [sys.executable, "-c", HEAD + code, str(ours)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(command, cwd=own, env=environment, capture_output=True, text=True, check=False)
    if "skip: " in done.stderr:
        pytest.skip(f"this kernel does not offer Landlock: {done.stderr}")
    return done


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    (tmp_path / "ours").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "ours" / "entry").write_text("true")
    return tmp_path / "ours"


@pytest.mark.parametrize("name", ATTACKS)
def test_no_file_outside_the_folder_is_changed(name: str, ours: Path) -> None:
    done = run(ATTACKS[name], ours, ours.with_name("own"))
    assert done.returncode != 0
    assert any(text in done.stderr for text in REFUSED), done.stderr
    assert (ours / "entry").read_text() == "true"
    assert [path.name for path in ours.iterdir()] == ["entry"]
    assert not (ours.with_name("own") / "entry").exists()


def test_writing_its_own_folder_reading_and_chmod_still_work(ours: Path) -> None:
    code = """
(own / 'a').mkdir()
(own / 'a' / 'x').write_text((ours / 'entry').read_text())
(own / 'a' / 'x').rename(own / 'y')
os.rmdir(own / 'a')
(ours / 'entry').chmod(0o600)
subprocess.run(['sh', '-c', 'cat y > z'], check=True, stdout=subprocess.DEVNULL)
"""
    done = run(code, ours, ours.with_name("own"))
    assert done.returncode == 0, done.stderr
    assert (ours.with_name("own") / "z").read_text() == "true"


def test_no_process_outside_gets_its_signals(ours: Path) -> None:
    code = """
from ligerdiag.sandbox import landlock
import ctypes
own_child = subprocess.Popen(['sleep', '60'])
own_child.kill()
print(own_child.wait(), landlock.find_version(ctypes.CDLL(None)))
os.kill(os.getppid(), 0)
"""
    done = run(code, ours, ours.with_name("own"))
    code_of_child, version = done.stdout.split()
    assert code_of_child == "-9"
    if int(version) < 6:
        pytest.skip(f"Landlock {version} does not stop signals")
    assert "PermissionError" in done.stderr
