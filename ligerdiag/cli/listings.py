"""`ligerdiag explain`, `list`, `targets`, `toolchains`: list the rules, cases, GPUs and versions that a user can choose
from.
"""

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.cli.output import AnswerFormat
from ligerdiag.errors import InputError

EXPLAIN_HELP = """Explains a rule: the hazard, the remedy, an example that is flagged and one that is not.
Without RULE, lists all rules.
"""

EXPLAIN_EPILOG = """\b
Examples:
  ligerdiag explain
  ligerdiag explain LD002
  ligerdiag explain stale-copy
"""


MAX_WIDTH = 100


def explain(
    rule: Annotated[str | None, typer.Argument(help="Id or name of a rule.", show_default=False)] = None,
) -> None:
    """Prints the page of a rule, or the list of all rules if none is given."""
    from ligerdiag import api
    from ligerdiag.report.rule_page import render_rule_text
    from ligerdiag.report.terminal.full_report import compute_stream_width
    from ligerdiag.report.terminal.spans import render_columns

    if rule is not None:
        width = min(compute_stream_width(sys.stdout) or MAX_WIDTH, MAX_WIDTH)
        sys.stdout.write(render_rule_text(api.get_rule(rule), width))
        return
    rows = [(r.id, r.name, r.severity.value, r.summary) for r in api.list_rules()]
    sys.stdout.write(render_columns(("rule", "name", "severity", "what"), rows))


LIST_HELP = """Lists the cases with their ids, expectations, meshes and descriptions. Nothing is
compiled.
"""

LIST_EPILOG = """\b
Examples:
  ligerdiag list
  ligerdiag list 'seed_*' --ids
  ligerdiag list mine.py
"""


def list_cases(
    selectors: Annotated[
        list[str] | None, typer.Argument(help="Ids, globs, files, module:name.", show_default=False)
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print only the ids, one on each line.")] = False,
) -> None:
    """Prints the cases that the selectors choose."""
    from ligerdiag import api
    from ligerdiag.report.terminal.spans import render_columns
    from ligerdiag.text import compute_printable

    cases = api.list_cases(tuple(selectors or ()))
    if ids:
        sys.stdout.write("".join(f"{compute_printable(case.id)}\n" for case in cases))
        return
    rows = [(case.id, render_expected(case.expected), render_mesh(case.mesh), case.about) for case in cases]
    sys.stdout.write(render_columns(("case", "expected", "mesh", "about"), rows))


def render_expected(expected: str | Mapping[str, str] | None) -> str:
    """Returns an expectation as text, such as `fresh`, `hazard` or `weight stale|latent, * fresh`. Returns `-` for None."""
    match expected:
        case None:
            return "-"
        case str():
            return expected
        case _:
            return ", ".join(f"{name} {verdicts}" for name, verdicts in expected.items())


def render_mesh(mesh: Mapping[str, int]) -> str:
    """Returns a device mesh as text, such as `data=4 model=2`. Returns `-` for a single device."""
    return " ".join(f"{axis}={size}" for axis, size in mesh.items()) or "-"


TARGETS_HELP = """Lists the GPUs that ligerdiag can compile for without having one, and the toolchains that do.

With NAME, prints the description for XLA, with the sources of its figures. NAME is a target, the path of
a description file, or `auto`, the GPU of this machine as XLA describes it.
"""

TARGETS_EPILOG = """\b
Examples:
  ligerdiag targets
  ligerdiag targets h200
  ligerdiag targets auto > mine.pbtxt          the GPU of this machine, for another one
  ligerdiag check --target a100,mine.pbtxt
"""


def targets(
    name: Annotated[str | None, typer.Argument(help="A target.", show_default=False)] = None,
    *,
    format: Annotated[AnswerFormat, typer.Option("--format", help="Format of the answer.")] = AnswerFormat.TERMINAL,
    cache_dir: Annotated[
        Path | None, typer.Option("--cache-dir", metavar="DIR", help="Folder with the toolchains' environments.")
    ] = None,
) -> None:
    """Prints the list of targets (the GPUs to compile for), or the description of one target."""
    from ligerdiag import api
    from ligerdiag.text import compute_printable

    chosen = () if name is None else (api.load_target(name),)
    if chosen and format is AnswerFormat.TERMINAL:
        lines = chosen[0].description.rstrip("\n").split("\n")
        sys.stdout.write("".join(f"{compute_printable(line)}\n" for line in lines))
        return
    statuses = api.list_target_statuses(chosen, cache_dir)
    sys.stdout.write(render_targets_json(statuses) if format is AnswerFormat.JSON else render_targets(statuses))


def render_targets(statuses: "tuple[TargetStatus, ...]") -> str:
    """Returns a table of targets as text, with a line for each target."""
    from ligerdiag.report.terminal.spans import render_columns

    rows = [
        (
            status.target.name,
            status.target.vendor,
            status.target.generation,
            f"{status.target.memory / 2**30:.0f} GiB" if status.target.memory else "-",
            str(status.target.cores or "-"),
            ",".join(status.here) or "-",
            ",".join(status.elsewhere) or "-",
        )
        for status in statuses
    ]
    return render_columns(("target", "vendor", "generation", "memory", "cores", "toolchains", "to be created"), rows)


def render_targets_json(statuses: "tuple[TargetStatus, ...]") -> str:
    """Returns the JSON object `{"targets": [...]}`: each target with its figures and toolchains."""
    records = [
        {
            "name": status.target.name,
            "vendor": status.target.vendor,
            "platform": status.target.platform.value,
            "generation": status.target.generation,
            "architecture": status.target.architecture,
            "model": status.target.model,
            "memory_bytes": status.target.memory,
            "cores": status.target.cores,
            "sha256": status.target.sha256,
            "path": str(status.target.path),
            "toolchains": status.here,
            "toolchains_to_create": status.elsewhere,
        }
        for status in statuses
    ]
    return json.dumps({"targets": records}, indent=1) + "\n"


if TYPE_CHECKING:
    from ligerdiag.api.catalogue import TargetStatus, ToolchainStatus

TOOLCHAINS_HELP = """Lists, creates and diagnoses toolchains: versions of JAX and Triton to compile with, besides
the installed ones. Each is an environment in the cache that uv creates from exact pins
when it is first needed; only that takes a package index. Any release of JAX since 0.4.31,
such as jax-0.7.2, is a toolchain, too, and listed once its environment exists.

\b
  list            list all toolchains, and whether they have an environment
  create NAME     create the environment
  doctor [NAME]   compile a small program with it, and say what fails and why
"""

TOOLCHAINS_EPILOG = """\b
Examples:
  ligerdiag toolchains
  ligerdiag toolchains create seed
  ligerdiag toolchains doctor seed
  ligerdiag check 'seed_flce*' --toolchain seed

\b
Exit codes:
    0  no fault
    2  usage or input error; the environment could not be created
    3  doctor found a broken toolchain, or a named one is missing
"""


class Action(StrEnum):
    """The actions of `ligerdiag toolchains`."""

    LIST = "list"
    CREATE = "create"
    DOCTOR = "doctor"


def toolchains(
    action: Annotated[
        Action, typer.Argument(help="What to do with the toolchains: list, create or check them.")
    ] = Action.LIST,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Toolchains.", show_default=False)
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="NAME",
            help="GPU for which doctor compiles. [default: h100, or mi300 for AMD]",
            show_default=False,
        ),
    ] = "",
    format: Annotated[AnswerFormat, typer.Option("--format", help="Format of the answer.")] = AnswerFormat.TERMINAL,
    cache_dir: Annotated[
        Path | None,
        typer.Option("--cache-dir", metavar="DIR", help="Folder with the environments. [default: the user's cache]"),
    ] = None,
) -> None:
    """Lists, creates or diagnoses toolchains.

    Exits with 3 if a diagnosis finds a broken toolchain, or if a toolchain that you name has no environment.
    """
    from ligerdiag import api

    names = names or []
    match action:
        case Action.LIST:
            if names:
                raise InputError(f"`list` takes no names, but got `{names[0]}`: try `doctor {names[0]}`")
            statuses = api.list_toolchains(cache_dir)
        case Action.CREATE:
            if not names:
                raise InputError("expected the names of the toolchains to create, but got none")
            statuses = tuple([api.create_toolchain(name, _log, cache_dir) for name in dict.fromkeys(names)])
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
    from ligerdiag.report.terminal.spans import render_columns

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
    """Returns a table with the diagnosis of each toolchain: its steps, up to the first one that does not work."""
    from ligerdiag.report.terminal.spans import render_columns
    from ligerdiag.text import compute_printable

    rows = [
        (status.name, step.name, step.state.value, compute_printable(step.detail))
        for status in statuses
        for step in status.steps
    ]
    return render_columns(("toolchain", "step", "state", "detail"), rows)


def render_json(statuses: "tuple[ToolchainStatus, ...]") -> str:
    """Returns the JSON object `{"toolchains": [...]}`: each toolchain with its state, versions and steps."""
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


def _log(step: str) -> None:
    from ligerdiag.text import compute_printable

    sys.stderr.write(f"{compute_printable(step)}\n")
    sys.stderr.flush()
