"""uv, the program that makes environments: where it is, and how it is run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ligerdiag.errors import InputError

HINT = "install uv (`pip install uv`) or put it on PATH"


class UvError(Exception):
    """uv did not do what was asked; the message is what it said last."""


def find_uv(directory: Path) -> tuple[str, ...]:
    """Returns the command that runs uv, tried in `directory`; raises InputError when none runs there."""
    for command in _list_candidates():
        try:
            done = subprocess.run([*command, "--version"], check=False, capture_output=True, cwd=directory, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command
    raise InputError(f"cannot create an environment without uv: {HINT}")


def run_uv(command: Sequence[str], arguments: Sequence[str], directory: Path, tell: Callable[[str], None]) -> None:
    """Runs uv in `directory` and tells each line that it writes; UvError when it fails. Ends with what interrupts us.

    directory: outside of any project, whose `[tool.uv]` would count.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    with subprocess.Popen(
        [*command, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                if line.strip():
                    said.append(line.strip())
                    tell(line.strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise UvError(_summarise(said) or f"uv ended with exit code {process.returncode}")


def _list_candidates() -> Iterator[tuple[str, ...]]:
    """`uv run` says where it is; else beside our Python, on PATH, beside the Python that ours was made from, as a module."""
    base = Path(getattr(sys, "_base_executable", sys.executable))
    places = (os.environ.get("UV"), Path(sys.executable).with_name("uv"), shutil.which("uv"), base.with_name("uv"))
    for place in (*places, Path.home() / ".local" / "bin" / "uv"):
        if place is not None and Path(place).is_file():
            yield (str(place),)
    yield (sys.executable, "-P", "-m", "uv")


def _summarise(said: Sequence[str]) -> str:
    """Returns the error and its causes in one line."""
    start = next(
        (number for number, line in enumerate(said) if line.startswith(("error", "×", "Error"))), len(said) - 1
    )
    return " ".join(line.lstrip("×╰─▶│├ ") for line in said[max(start, 0) :])[:400]
