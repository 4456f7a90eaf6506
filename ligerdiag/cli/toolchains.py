"""`ligerdiag toolchains`: which versions of JAX and Triton can compile here?"""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.cli.options import AnswerForm
from ligerdiag.cli.output import AnswerFormat
from ligerdiag.errors import InputError

if TYPE_CHECKING:
    from ligerdiag.api.catalogue import ToolchainStatus

HELP = """Which versions of JAX and Triton can compile here, besides those that ligerdiag is installed
with? Each is an environment that uv makes of exact pins, in the cache, when it is first
needed. That takes a package index; later it works without.

\b
  list            what there is, and what stands on this disk
  create NAME     make the environment
  doctor [NAME]   try it on a small program: what works, what is missing, and why
"""

EPILOG = """\b
Examples:
  ligerdiag toolchains
  ligerdiag toolchains create seed
  ligerdiag toolchains doctor seed
  ligerdiag check 'seed_flce*' --toolchain seed

\b
Exit codes:
    0  as it should be
    2  usage or input error; the environment could not be made
    3  doctor found one broken, or one that was named is missing
"""


class Action(StrEnum):
    """The action of `ligerdiag toolchains`."""

    LIST = "list"
    CREATE = "create"
    DOCTOR = "doctor"


def toolchains(
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.LIST,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Toolchains.", show_default=False)
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="NAME", help="GPU that doctor compiles for.")] = "h100",
    format: AnswerForm = AnswerFormat.TERMINAL,
    cache_dir: Annotated[
        Path | None,
        typer.Option("--cache-dir", metavar="DIR", help="Where environments are kept. [default: the user's cache]"),
    ] = None,
) -> None:
    """Lists, makes or tries toolchains, and exits with the code that says how that went."""
    from ligerdiag import api

    names = names or []
    match action:
        case Action.LIST:
            if names:
                raise InputError(f"`list` takes no names but got `{names[0]}`: `doctor {names[0]}` looks closer")
            statuses = api.list_toolchains(cache_dir)
        case Action.CREATE:
            if not names:
                raise InputError("expected the names of the toolchains to create")
            statuses = tuple([api.create_toolchain(name, _tell, cache_dir) for name in dict.fromkeys(names)])
        case Action.DOCTOR:
            chosen = dict.fromkeys(names or [status.name for status in api.list_toolchains(cache_dir)])
            statuses = tuple([api.diagnose_toolchain(name, target, cache_dir) for name in chosen])
    if format is AnswerFormat.JSON:
        sys.stdout.write(render_json(statuses))
    elif action is Action.DOCTOR:
        sys.stdout.write(render_steps(statuses))
    else:
        sys.stdout.write(render_list(statuses))
    bad = ("broken", "missing") if names else ("broken",)
    if action is Action.DOCTOR and any(status.state.value in bad for status in statuses):
        raise typer.Exit(ExitCode.NOT_ANALYSED)


def render_list(statuses: "tuple[ToolchainStatus, ...]") -> str:
    from ligerdiag.api.catalogue import SHOWN_VERSIONS, StepState
    from ligerdiag.render.terminal.spans import render_columns

    def describe(status: "ToolchainStatus") -> str:
        if status.state is StepState.MISSING:
            return "not created"
        return "there" if status.state is StepState.WORKS else "broken"

    rows = [
        (
            status.name,
            describe(status),
            *(status.versions.get(package, "-") for package in SHOWN_VERSIONS),
            status.python,
            status.about,
        )
        for status in statuses
    ]
    return render_columns(("toolchain", "environment", *SHOWN_VERSIONS, "python", "about"), rows)


def render_steps(statuses: "tuple[ToolchainStatus, ...]") -> str:
    """Each toolchain's steps, up to the first that is not as it should be."""
    from ligerdiag.render.terminal.spans import render_columns
    from ligerdiag.text import compute_printable

    rows = [
        (status.name, step.name, step.state.value, compute_printable(step.detail))
        for status in statuses
        for step in status.steps
    ]
    return render_columns(("toolchain", "step", "state", "detail"), rows)


def render_json(statuses: "tuple[ToolchainStatus, ...]") -> str:
    """`{"toolchains": [...]}`, each with its state, versions and steps."""
    records = [
        {
            "name": status.name,
            "about": status.about,
            "state": status.state.value,
            "python": status.python,
            "versions": status.versions,
            "directory": status.directory,
            "steps": [{"name": step.name, "state": step.state.value, "detail": step.detail} for step in status.steps],
        }
        for status in statuses
    ]
    return json.dumps({"toolchains": records}, indent=1) + "\n"


def _tell(step: str) -> None:
    from ligerdiag.text import compute_printable

    sys.stderr.write(f"{compute_printable(step)}\n")
    sys.stderr.flush()
