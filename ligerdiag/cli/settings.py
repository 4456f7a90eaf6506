"""The configuration file's settings, for options that the command line does not give."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ligerdiag.cli.exit_codes import FailOn
from ligerdiag.config import Config, find_foreign_config, load_config


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """The configuration, and the options that it has defaults for."""

    config: Config
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
    config = load_config(path, Path.cwd(), inspected)
    foreign = find_foreign_config(Path.cwd(), inspected) if path is None else None
    note = f"`{foreign}` came with what is inspected and is not believed: `--config` names it where it is yours"
    return CommandSettings(
        config=config,
        fail_on=fail_on or FailOn(config.fail_on or FailOn.WARNING),
        strict=bool(config.strict) if strict is None else strict,
        notes=() if foreign is None else (note,),
    )
