"""Completion in the shell: the commands and options that a shell offers, and the script that turns it on."""

import os
import subprocess
import sys

import pytest

from tools.documents import ROOT
from tools.running import Outcome, run_process


def run_ligerdiag(*words: str, **variables: str) -> Outcome:
    command = [sys.executable, "-c", "from ligerdiag.__main__ import main; main()", *words]
    return run_process(command, cwd=ROOT, environment=os.environ | variables)


@pytest.mark.parametrize(
    ("typed", "position", "offered"),
    [
        ("ligerdiag che", "1", ["check"]),
        ("ligerdiag co", "1", ["compare"]),
        ("ligerdiag check --mem", "2", ["--memory-budget"]),
        ("ligerdiag inspect --format s", "3", ["sarif"]),
    ],
)
def test_a_shell_gets_the_words_that_fit(typed: str, position: str, offered: list[str]) -> None:
    variables = {"_LIGERDIAG_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": position}
    done = run_ligerdiag(**variables)
    assert done.out.split() == offered, done


def test_the_script_for_a_shell_is_shown_and_is_valid() -> None:
    shown = run_ligerdiag("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.code == 0, shown
    assert "_LIGERDIAG_COMPLETE=complete_bash" in shown.out
    assert subprocess.run(["bash", "-n"], input=shown.out, text=True, check=False).returncode == 0
