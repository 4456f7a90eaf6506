"""Ctrl-C while a command is still importing exits with 130, one word and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPT = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupter())
"""
STARTS = {
    "script": "sys.argv = ['ligerdiag', *sys.argv[2:]]\nfrom ligerdiag.__main__ import main\nsys.exit(main())",
    "module": "sys.argv = ['ligerdiag', *sys.argv[2:]]\nimport runpy\nrunpy.run_module('ligerdiag', run_name='__main__')",
}
IMPORTED = ("platformdirs", "ligerdiag.cli.main", "typer", "ligerdiag.cli.sweep", "ligerdiag.api")
HEARD = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Restores Ctrl-C, which a shell disables for a run in the background and its children."""
COMMANDS = (("check", "x.py"), ("inspect", "."), ("report", "."), ("list", "x.py"), ("targets",))


def run(imported: str, start: str, words: tuple[str, ...], folder: Path) -> "subprocess.CompletedProcess[str]":
    code = HEARD + INTERRUPT.replace("sys.argv[1]", repr(imported)) + STARTS[start]
    return subprocess.run(
        [sys.executable, "-c", code, imported, *words],
        cwd=folder, env=os.environ | {"LIGERDIAG_CACHE_DIR": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("imported", IMPORTED)
def test_an_interrupted_import_ends_the_command(imported: str, start: str, tmp_path: Path) -> None:
    done = run(imported, start, ("check", "x.py"), tmp_path)
    assert (done.returncode, done.stderr.strip(), done.stdout) == (130, "interrupted", "")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_ctrl_c_during_imports_ends_each_command(words: tuple[str, ...], tmp_path: Path) -> None:
    for imported in ("typer", "ligerdiag.api"):
        done = run(imported, "script", words, tmp_path)
        assert (done.returncode, done.stderr.strip(), done.stdout) == (130, "interrupted", ""), imported


def test_a_program_that_ignores_ctrl_c_still_ignores_it(tmp_path: Path) -> None:
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPT.replace("sys.argv[1]", "'typer'")
    code += "sys.argv = ['ligerdiag', '--version']\nfrom ligerdiag.__main__ import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:10]) == (0, "ligerdiag ")
