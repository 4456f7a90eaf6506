"""Options that several commands have, each with one name, one default text and one help, and what the
configuration file says of options that are not given.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.exit_codes import FailOn
from ligerdiag.cli.output import AnswerFormat
from ligerdiag.cli.report_output import Format

if TYPE_CHECKING:
    from ligerdiag.config import Config as LoadedConfig

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of `500M`, `4G`, `1.5GiB` or `1048576`; units are powers of 1024. Raises typer.BadParameter."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if not size:
        raise typer.BadParameter(f"expected a size such as 500M or 4G but got `{text}`")
    return size


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
Seed = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="Of the arguments that a replay draws, by shape and dtype.")
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


Paths = Annotated[list[Path], typer.Argument(help="Directories and files.", show_default=False)]
Module = Annotated[
    str, typer.Option("--module", metavar="GLOB", help="Only modules whose name matches, such as '*step*'.")
]
ModuleFailOn = Annotated[
    FailOn | None, typer.Option("--fail-on", help="Least severity that fails the run. [default: warning]")
]
ModuleStrict = Annotated[
    bool | None,
    typer.Option(
        "--strict/--no-strict", help="Exit with 4 when a module is inconclusive, with 1 for a bad suppression."
    ),
]
ModuleTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.001,
        metavar="SECONDS",
        help="Longest for a module, and for its replay. [default: by its size]",
    ),
]
EffectsCacheDir = Annotated[
    Path | None, typer.Option("--cache-dir", metavar="DIR", help="Where kernels' effects are kept.")
]
InspectSourceRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--source-root",
        metavar="DIR",
        help="Show source lines of files below DIR and obey their comments. Repeatable. [default: none]",
    ),
]
Evidence = Annotated[bool, typer.Option("--verbose", "-v", help="Evidence in full.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """The configuration, and the options that it has defaults for."""

    config: "LoadedConfig"
    fail_on: FailOn
    strict: bool
    notes: tuple[str, ...] = ()
    """Names the file that was passed over."""


def read_settings(
    path: Path | None, *, fail_on: FailOn | None, strict: bool | None, inspected: Sequence[Path] = ()
) -> CommandSettings:
    """Reads `path`, or the nearest pyproject.toml; an option that is given wins. Raises InputError as `load_config` does.

    inspected: paths that may come from elsewhere; a pyproject.toml that came with them is passed over.
    """
    from ligerdiag.config import find_foreign_config, load_config

    config = load_config(path, Path.cwd(), inspected)
    foreign = find_foreign_config(Path.cwd(), inspected) if path is None else None
    note = f"`{foreign}` came with what is inspected and is not believed: `--config` names it where it is yours"
    return CommandSettings(
        config=config,
        fail_on=fail_on or FailOn(config.fail_on or FailOn.WARNING),
        strict=bool(config.strict) if strict is None else strict,
        notes=() if foreign is None else (note,),
    )
