"""In a real terminal no line is too wide, and colours appear only where they are wanted."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ligerdiag.text import compute_cells, compute_printable

ROOT = Path(__file__).parents[2]
SCRIPT = """
from ligerdiag.cli.exit_codes import ExitCode, FailOn
from ligerdiag.cli.output import Format, Outputs, write_report
from ligerdiag.cli.verbosity import Verbosity
from ligerdiag.model.report import Status
from tests.report.samples import make_case, make_device, make_finding, make_replay, make_report
long = make_finding(message="a message of many words " * 20, help="a remedy of many words " * 20)
report = make_report(
    make_case("a[1]", replay=make_replay(), device=make_device(), findings=(make_finding(),)),
    make_case("b[2]", Status.UNEXPECTED, mismatch="expected this and got that " * 9, findings=(long,)),
    make_case("c[3]", Status.ERROR, error="it did not work at all " * 9, outputs={}),
    notes=("a note of many words " * 20,),
)
outputs = Outputs(shown=Format.TERMINAL, files={})
write_report(report, outputs, verbosity=Verbosity.VERBOSITY, code=ExitCode.FINDINGS, fail_on=FailOn.WARNING, strict=False)
"""


def show(columns: int, *, verbose: bool = False, **environment: str) -> str:
    """Returns the output on a terminal with this number of columns."""
    own, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.replace("VERBOSITY", "VERBOSE" if verbose else "USUAL")],
        stdout=child,
        cwd=ROOT,
        env=inherited | {"TERM": "xterm-256color"} | environment,
    )
    os.close(child)
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(own, 1 << 16)
        except OSError:  # Linux raises EIO when the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(own)
    assert process.wait(60) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("verbose", [False, True])
def test_no_line_is_wider_than_the_terminal(columns: int, verbose: bool) -> None:
    lines = [compute_printable(line) for line in show(columns, verbose=verbose).split("\n")]
    words = {word for line in lines for word in line.split() if compute_cells(word) > columns - 15}
    wide = [line for line in lines if compute_cells(line) > columns and not words & set(line.split())]
    assert wide == []
    assert len(lines) > 30


def test_a_terminal_is_coloured_by_default() -> None:
    assert "\x1b[1;31mUNEXPECTED" in show(80)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
        assert "\x1b" not in show(80, **environment)


@pytest.mark.parametrize(("environment", "is_coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_a_pipe_is_coloured_only_if_forced_and_never_wrapped(environment: dict[str, str], is_coloured: bool) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("VERBOSITY", "USUAL")],
        cwd=ROOT,
        env=inherited | {"COLUMNS": "40"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("\x1b" in done.stdout) == is_coloured
    assert "a message of many words " * 19 in done.stdout
