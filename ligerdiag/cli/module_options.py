"""Options of the commands that read modules which were compiled elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import FailOn

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
    typer.Option("--timeout", min=0.001, metavar="SECONDS", help="Longest for a module. [default: by its size]"),
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
