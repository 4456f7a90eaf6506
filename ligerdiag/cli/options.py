"""Makes a function that typer understands as a command, from a record with one field for each option.

The module also holds the options that several commands have in addition to those of `ligerdiag.run_options`, and reads
the defaults that [tool.ligerdiag] gives.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin, get_type_hints

import typer

from ligerdiag.cli.exit_codes import FailOn
from ligerdiag.cli.output import AnswerFormat, Format
from ligerdiag.model.memory_limits import MemoryBudgets, parse_bytes
from ligerdiag.report.comparisons import Axis
from ligerdiag.run_options import Option

if TYPE_CHECKING:
    from ligerdiag.config import Config as LoadedConfig
    from ligerdiag.replay.replay_worker import Bounds
    from ligerdiag.report.allowed.suppressions import ConfigEntry


def make_command[Line](line: type[Line], run: Callable[[Line], None], order: str) -> Callable[..., None]:
    """Returns a function that typer accepts as a command: it takes options, and calls `run` with a record of them.

    line: the class of the record, a dataclass. A field is an option if its annotation has an `Option`; other fields keep
    their defaults. order: names of the fields that are options, in the order of `--help`.
    """
    hints = get_type_hints(line, include_extras=True)
    shown = {one.name: one for one in fields(cast("Any", line)) if _find_option(hints[one.name])}
    names = order.split()
    if set(names) != shown.keys():
        raise TypeError(
            f"the list that orders the options of {line.__name__} does not match its fields: {set(names) ^ shown.keys()}"
        )
    parameters = [_make_parameter(shown[name], hints[name]) for name in names]

    def command(**given: Any) -> None:
        run(line(**{name: _unpack(shown[name], value) for name, value in given.items()}))

    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = run.__doc__
    return command


def _find_option(hint: Any) -> Option | None:
    return next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Option)), None)


def _make_parameter(one: "Field[Any]", hint: Any) -> inspect.Parameter:
    """Returns the parameter for a field of the record. A field that is a tuple becomes a list, which typer lets the
    user repeat.
    """
    option, kind, default = _find_option(hint), get_args(hint)[0], one.default
    assert option is not None
    for part in (kind, *get_args(kind)):
        if get_origin(part) is tuple:
            (element, _) = get_args(part)
            element = element if isinstance(element, type) else str  # a selector is text on the command line
            kind, default = (
                (list[element], inspect.Parameter.empty) if default is MISSING else (list[element] | None, None)
            )
    words: dict[str, Any] = {"help": option.help, "metavar": option.metavar, "min": option.min}
    words |= {"show_default": option.show_default, "hidden": option.hidden}
    info = typer.Option(*option.names, **words) if option.names else typer.Argument(**words)
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, info],
    )


def _unpack(one: "Field[Any]", value: object) -> object:
    """Returns the value for a field of the record: a tuple for typer's list, and the field's default if the user gave
    no value.
    """
    if isinstance(value, list):
        return tuple(cast("list[object]", value))
    return one.default if value is None and one.default is not MISSING else value


def fill_options[Options](options: type[Options], line: object, **changes: object) -> Options:
    """Returns a record of options for the API.

    Each of its fields has the value of the field of `line` with this name, unless `changes` gives a value.
    """
    names = [one.name for one in fields(cast("Any", options))]
    return options(**({name: getattr(line, name) for name in names if name not in changes} | changes))


def parse_size(text: str) -> int:
    """Returns the bytes of a size such as `500M`, as `parse_bytes` does.

    Raises typer.BadParameter for any other text, and for 0.
    """
    size = _parse_size(text)
    if not size:
        raise typer.BadParameter(f"expected a size such as 500M or 4G but got `{text}`")
    return size


def _parse_size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_targets(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the targets in the order given, split at commas, each once."""
    parts = [part.strip() for name in names for part in name.split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))


Config = Annotated[
    Path | None,
    Option("--config", metavar="FILE", help="Read [tool.ligerdiag] from this file. [default: nearest pyproject.toml]"),
]
TimeLimit = Annotated[
    float | None,
    Option(
        "--time-limit",
        min=0.001,
        metavar="SECONDS",
        help="Stop after this many seconds and report the results so far. [default: none]",
    ),
]
ReportFormat = Annotated[Format, Option("--format", help="Format of the report on standard output.")]
ReportOutputs = Annotated[
    tuple[str, ...],
    Option(
        "--output",
        metavar="[FORMAT=]FILE",
        help="Write the report to a file, too: sarif=out.sarif. Repeatable. Without FORMAT, the suffix of FILE decides "
        "(.json, .md, .sarif, .txt, .xml). With any other suffix, FILE gets the format of --format, and standard output "
        "the table.",
    ),
]
Axes = Annotated[
    tuple[Axis, ...],
    Option(
        "--bisect",
        metavar="AXIS",
        help="With --format issue: also find the passes, flags, targets or toolchains that change the result; see "
        "`ligerdiag bisect`. Repeatable.",
    ),
]
Quiet = Annotated[
    bool,
    Option("--quiet", "-q", help="Show only the findings, the notes on the run and the last line."),
]
Html = Annotated[
    Path | None,
    Option("--html", metavar="DIR", help="Write pages for a browser, too: DIR/index.html and one for each case."),
]
AnswerForm = Annotated[AnswerFormat, Option("--format", help="Format of the answer.")]
AnswerOutput = Annotated[
    Path | None, Option("--output", metavar="FILE", help="Write the answer to FILE, and a table to standard output.")
]


@dataclass(frozen=True, kw_only=True)
class ReplayBounds:
    """The options of all commands that replay: the limits for the time and the memory of a replay."""

    replay_seconds: Annotated[
        float,
        Option(
            "--replay-seconds",
            min=0.001,
            metavar="SECONDS",
            help="Replay a program only if the estimated time of its replay is below this limit.",
        ),
    ] = 10.0
    replay_memory: Annotated[
        str,
        Option(
            "--replay-memory",
            metavar="SIZE",
            help="Replay a program only if the estimated memory of its replay is below this limit, such as 500M.",
        ),
    ] = "4G"
    full: Annotated[
        bool, Option("--full", help="Replay regardless of the estimate, up to 16G and the free memory.")
    ] = False

    def make_bounds(self) -> "Bounds":
        """Returns the bounds on replays that the options set. Raises typer.BadParameter for a size that cannot be parsed."""
        from ligerdiag.replay.replay_worker import Bounds

        return Bounds(seconds=self.replay_seconds, memory=parse_size(self.replay_memory), full=self.full)


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The options of all commands that judge memory.

    They limit how much memory a program may need, and how much it may copy (LD033).
    """

    memory_budget: Annotated[
        str | None,
        Option(
            "--memory-budget",
            metavar="SIZE",
            help="Most memory that one call may need on one device, such as 60G: all that XLA reserves, not only the peak "
            "of the live bytes. [default: any]",
        ),
    ] = None
    copy_budget: Annotated[
        str | None,
        Option(
            "--copy-budget",
            metavar="SIZE",
            help="Most bytes that one call may copy, such as 1M; 0 allows none. [default: any]",
        ),
    ] = None

    def make_budgets(self, config: "LoadedConfig") -> MemoryBudgets:
        """Returns the memory budgets: each from its option, or from the configuration if the option is missing.

        Raises typer.BadParameter for a size that cannot be parsed.
        """
        return MemoryBudgets(
            memory=config.budgets.memory if self.memory_budget is None else parse_size(self.memory_budget),
            copies=config.budgets.copies if self.copy_budget is None else _parse_size(self.copy_budget),
        )


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """The options of all commands that report findings: they choose the rules that count."""

    select: Annotated[
        tuple[str, ...],
        Option(
            "--select",
            metavar="RULES",
            help="Count only the findings of these rules, such as LD001,stale-copy. Repeatable. [default: all rules]",
        ),
    ] = ()
    ignore: Annotated[
        tuple[str, ...],
        Option("--ignore", metavar="RULES", help="Do not count the findings of these rules. Repeatable."),
    ] = ()
    statistics: Annotated[
        bool, Option("--statistics", help="Print the number of findings of each rule, after the report.")
    ] = False

    def make_entries(self) -> tuple["ConfigEntry", ...]:
        """Returns a configuration entry for each rule that does not count.

        The entry allows the findings of the rule, so that they stay in the report. Raises InputError for a word that
        names no rule.
        """
        from ligerdiag.report.allowed.suppressions import ConfigEntry
        from ligerdiag.rules.registry import RULES

        ignored, selected = _parse_rules(self.ignore), _parse_rules(self.select)
        left_out = dict.fromkeys(ignored, "--ignore")
        if selected:
            left_out |= {rule.id: "--select" for rule in RULES if rule.id not in selected | ignored}
        return tuple(
            ConfigEntry(rule=rule, reason=f"{option} excludes the rule", where=option, is_asked=True)
            for rule, option in sorted(left_out.items())
        )


def _parse_rules(words: Sequence[str]) -> frozenset[str]:
    """Returns the ids of rules that an option gives by id or name, several with commas."""
    from ligerdiag.rules.registry import get_rule

    return frozenset(get_rule(name.strip()).id for word in words for name in word.split(",") if name.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """The configuration of a run, and the options that have their defaults there."""

    config: "LoadedConfig"
    fail_on: FailOn
    strict: bool
    notes: tuple[str, ...] = ()
    """Notes for the report, such as one on a pyproject.toml that is ignored."""


def read_settings(
    path: Path | None, *, fail_on: FailOn | None, strict: bool | None, inspected: Sequence[Path] = ()
) -> CommandSettings:
    """Returns the settings from the configuration file at `path`, or from the nearest pyproject.toml.

    Options that are given take precedence over the file. inspected: paths that may come from somebody else; a
    pyproject.toml that came with them is ignored. Raises InputError as `load_config` does.
    """
    from ligerdiag.config import find_foreign_config, load_config

    config = load_config(path, Path.cwd(), inspected)
    foreign = find_foreign_config(Path.cwd(), inspected) if path is None else None
    note = f"`{foreign}` came with the inspected files and is ignored: name it with `--config` if it is yours"
    return CommandSettings(
        config=config,
        fail_on=fail_on or FailOn(config.fail_on or FailOn.WARNING),
        strict=bool(config.strict) if strict is None else strict,
        notes=() if foreign is None else (note,),
    )
