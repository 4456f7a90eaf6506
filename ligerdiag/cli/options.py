"""Options that several commands have, each with one name, one default text and one help."""

from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.answer_output import AnswerFormat
from ligerdiag.cli.report_output import Format

DEFAULT_TARGETS = ("h100",)

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Workers. [default: one a core]")]
CacheDir = Annotated[
    Path | None,
    typer.Option("--cache-dir", metavar="DIR", help="Where artifacts are kept. [default: the user's cache]"),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read [tool.ligerdiag] there. [default: nearest pyproject.toml]"),
]
Replay = Annotated[bool, typer.Option("--replay/--no-replay", help="Replay on numbers.")]
ReplaySeconds = Annotated[
    float,
    typer.Option("--replay-seconds", min=0.001, metavar="SECONDS", help="Replay what is estimated below that."),
]
ReplayMemory = Annotated[
    str, typer.Option("--replay-memory", metavar="SIZE", help="Replay what is estimated below that: 500M, 4G.")
]
Full = Annotated[bool, typer.Option("--full", help="Replay whatever the estimate, up to 16G and what is free.")]
ToolchainName = Annotated[
    str,
    typer.Option("--toolchain", metavar="NAME", help="Compile with these versions, see `ligerdiag toolchains`."),
]
SourceRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--source-root",
        metavar="DIR",
        help="Show source lines of files below DIR and obey their comments. Repeatable. [default: this repository, or "
        "else folder, and the cases' own projects]",
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        min=0.001,
        metavar="SECONDS",
        help="End the run then: what is known is written, the rest is not checked. [default: none]",
    ),
]
ReportFormat = Annotated[Format, typer.Option("--format", help="Form of the report on standard output.")]
ReportOutputs = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="[FORMAT=]FILE",
        help="Write the report there, too: sarif=out.sarif. Repeatable. Without FORMAT: in that of --format, and the "
        "table here.",
    ),
]
AnswerForm = Annotated[AnswerFormat, typer.Option("--format", help="Form of the answer.")]
AnswerOutput = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write the answer there and keep the table here.")
]


def parse_targets(names: list[str]) -> tuple[str, ...]:
    """Comma lists, each name once, in the order given."""
    parts = [part.strip() for name in names for part in name.split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))
