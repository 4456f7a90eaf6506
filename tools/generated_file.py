"""Writes a generated file, or checks that it is fresh: the command line of the generators of single files."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def run_file_command(arguments: Sequence[str], module: str, render: Callable[[], str]) -> int:
    """Runs a command with the arguments `FILE [--check]`: writes the file, or with `--check` says whether it is stale.

    Returns the exit code: 0, 1 if the file is stale, 2 for wrong usage. module: the name for the usage line. render:
    returns the text of the file.
    """
    names = [argument for argument in arguments if not argument.startswith("-")]
    if len(names) != 1 or not {one for one in arguments if one.startswith("-")} <= {"--check"}:
        sys.stderr.write(f"usage: python -m {module} FILE [--check]\n")
        return 2
    path, text = Path(names[0]), render()
    if "--check" not in arguments:
        path.write_text(text, encoding="utf-8")
        return 0
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{path} is stale: run `make docs`\n")
        return 1
    return 0
