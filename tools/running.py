"""Runs a command in a process of its own, without interactive input."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output and exit code of a command."""

    code: int
    out: str
    err: str


def run_process(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout: float = 1200) -> Outcome:
    """Runs the command until it ends, in whatever way."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
