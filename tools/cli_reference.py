"""Generates docs/cli.md from the application itself: `python -m tools.cli_reference docs/cli.md [--check]`."""

import sys
from collections.abc import Sequence

from tools.generated_file import run_file_command

COMMANDS = (
    "",
    "check",
    "inspect",
    "report",
    "bisect",
    "reduce",
    "fix",
    "diff",
    "compare",
    "sweep",
    "record-tuning",
    "list",
    "explain",
    "targets",
    "toolchains",
)
WIDTH = 80


def render_reference() -> str:
    """Returns every command's help in one Markdown page."""
    from typer.testing import CliRunner

    from ligerdiag.cli.main import app

    parts = ["# The command line", "Generated from the application by `make docs`."]
    for command in COMMANDS:
        words = [command] if command else []
        environment = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
        result = CliRunner(env=environment).invoke(app, [*words, "--help"], prog_name="ligerdiag")
        title = " ".join(("ligerdiag", *words))
        text = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        text = text.partition("\n\nDocumentation: ")[0]  # pyproject.toml alone names the address
        parts += [f"## `{title}`", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the page; returns 0, 1 when it is stale, 2 for wrong usage."""
    return run_file_command(arguments, "tools.cli_reference", render_reference)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
