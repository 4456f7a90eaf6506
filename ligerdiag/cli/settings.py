"""What the configuration file says where the command line does not."""

from dataclasses import dataclass
from pathlib import Path

from ligerdiag.cli.exit_codes import FailOn
from ligerdiag.config import Config, load_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration, and the options that it has defaults for."""

    config: Config
    fail_on: FailOn
    strict: bool


def read_settings(path: Path | None, *, fail_on: FailOn | None, strict: bool | None) -> Settings:
    """Reads `path`, or the nearest pyproject.toml; an option that is given wins. Raises InputError as `load_config` does."""
    config = load_config(path, Path.cwd())
    return Settings(
        config=config,
        fail_on=fail_on or FailOn(config.fail_on or FailOn.WARNING),
        strict=bool(config.strict) if strict is None else strict,
    )
