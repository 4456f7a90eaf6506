"""Ctrl-C and SIGTERM end what comes after the check: a bug report's bisection and the search for cures. They kill the
worker, leave no file half written, and exit with the code that the help documents.
"""

import errno
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = """
import ctypes

import jax
import jax_triton
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def square_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(sum_ptr, tl.sum(x * x))
    tl.store(x_ptr + tl.arange(0, N), 2 * x)


def program(a):
    if ctypes.CDLL(None).access(b"blocked", 0) == 0:  # the cache does not see what C code asks
        with open("pipe", "w"):  # until the test has opened it, too
            pass
        with open("pipe") as pipe:  # which nobody writes to
            pipe.read()
    x = a + 1.0
    total = jax_triton.triton_call(x, kernel=square_kernel, out_shape=jax.ShapeDtypeStruct((), "float32"), grid=1, N=256)
    return {"total": total, "gradient": x * 3.0}


CASE = Case(name="mine", function=program, args=(Arg(shape=(256,)),))
"""
END_OF_BODY = "Found by ligerdiag"


@dataclass(frozen=True)
class CheckedProject:
    """A folder with a case that is in the cache; each further compile of it waits forever."""

    folder: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ligerdiag", *arguments, "-j", "1"],
            cwd=self.folder,
            env=os.environ | {"LIGERDIAG_CACHE_DIR": str(self.folder / "cache"), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, number: signal.Signals, *arguments: str) -> tuple[int, str, str]:
        """Runs the command, sends it the signal when a worker waits, and returns its exit code and both of its outputs."""
        process = self.start(*arguments)
        with (self.folder / "pipe").open() as pipe:
            pipe.read()
        process.send_signal(number)
        out, err = process.communicate()
        assert process.returncode is not None
        return process.returncode, out, err

    def has_reader(self) -> bool:
        """Returns whether the worker still waits for the pipe."""
        try:
            os.close(os.open(self.folder / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            return error.errno != errno.ENXIO
        return True


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CheckedProject:
    one = CheckedProject(tmp_path_factory.mktemp("checked"))
    (one.folder / "mine.py").write_text(CASE)
    os.mkfifo(one.folder / "pipe")
    process = one.start("check", "mine.py")
    _, err = process.communicate()
    assert process.returncode == 1, err
    (one.folder / "blocked").touch()
    return one


ENDS = (
    pytest.param(signal.SIGINT, 130, "Ctrl-C", "interrupted", id="int"),
    pytest.param(signal.SIGTERM, 143, "SIGTERM", "ended by SIGTERM", id="term", marks=pytest.mark.nightly),
)


@pytest.mark.parametrize(("number", "code", "name", "last"), ENDS)
def test_a_signal_ends_the_bisection_of_a_bug_report(
    project: CheckedProject, number: signal.Signals, code: int, name: str, last: str
) -> None:
    ended, out, err = project.end(number, "check", "mine.py", "--format", "issue", "--bisect", "flags")
    assert (ended, project.has_reader()) == (code, False), err
    assert END_OF_BODY in out
    sentence = f"issue: `--bisect` is incomplete, because {name} ended the work; run the same command again to continue"
    assert err.splitlines()[-2:] == [sentence, last]


@pytest.mark.parametrize(("number", "code", "name", "last"), ENDS)
def test_a_signal_ends_the_search_for_a_cure(
    project: CheckedProject, number: signal.Signals, code: int, name: str, last: str
) -> None:
    ended, out, err = project.end(number, "fix", "mine.py", "--write", "--cure", "declare")
    assert (ended, out, project.has_reader()) == (code, "", False), err
    assert err.splitlines()[-2:] == ["nothing is written", last]
    assert (project.folder / "mine.py").read_text() == CASE


@pytest.mark.nightly
def test_a_signal_ends_the_cures_after_a_report(project: CheckedProject) -> None:
    ended, out, err = project.end(signal.SIGINT, "check", "mine.py", "--fix")
    assert (ended, project.has_reader()) == (130, False), err
    assert "1 with findings and no expectation" in out
    assert err.splitlines()[-2:] == [
        "fix: no cure was found before Ctrl-C ended the search; run the same command again to continue",
        "interrupted",
    ]


@pytest.mark.nightly
def test_a_check_that_a_signal_ends_makes_no_bug_report(project: CheckedProject) -> None:
    text = CASE.replace("x * 3.0", "x * 4.0")
    (project.folder / "other.py").write_text(text)
    arguments = ("check", "other.py", "--format", "issue", "--output", "issue=body.md", "--output", "json=report.json")
    ended, out, err = project.end(signal.SIGINT, *arguments)
    assert (ended, out, project.has_reader()) == (130, "", False), err
    assert err.splitlines()[-2:] == [
        "issue: no bug report, because Ctrl-C ended the run; run the same command again to continue",
        "interrupted",
    ]
    assert not (project.folder / "body.md").exists()
    assert (project.folder / "report.json").exists()
