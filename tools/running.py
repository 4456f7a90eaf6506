"""Running a command in a process of its own, which asks nobody anything."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


def run_process(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout: float = 1200) -> Outcome:
    """Runs it to its end, whatever that is."""
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
