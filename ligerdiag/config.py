"""Reads `[tool.ligerdiag]` of a pyproject.toml: suppressions, effects of kernels, and defaults of options.

- `suppress`: array of tables with `rule` and `reason`; the globs `case`, `kernel`, `output` and `source` limit each
  suppression to the findings that match
- `effects`: table from a custom-call target or kernel to its effects, see `effects.declared`
- `targets`, `fail_on`, `strict`: defaults of the options of the same names
- `memory_budget`, `copy_budget`: defaults of the options of the same names, as sizes such as "60G"
- `baseline`, `known`, `autotune_results`: defaults of the options `--baseline`, `--known` and `--autotune-results`, as
  paths relative to the folder of the pyproject.toml

The file is the nearest pyproject.toml from the working directory upwards. One that came with the inspected files is
ignored (`find_foreign_config`).
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ligerdiag.effects.declared import DeclaredEffects, parse_declarations
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Severity
from ligerdiag.model.memory_limits import MemoryBudgets, parse_bytes
from ligerdiag.report.allowed.suppressions import ConfigEntry
from ligerdiag.rules.registry import get_rule
from ligerdiag.text import join_lines

NAME = "pyproject.toml"
NEVER = "never"
TABLE = "[tool.ligerdiag]"

KEYS = (
    "suppress",
    "effects",
    "targets",
    "fail_on",
    "strict",
    "baseline",
    "known",
    "autotune_results",
    "memory_budget",
    "copy_budget",
)
"""The keys of the table; `tools.config_schema` describes each of them."""
REQUIRED = ("rule", "reason")
"""The keys that an entry of `suppress` must have."""
FILTERS = ("case", "kernel", "output", "source")
FAIL_ON = (*(severity.value for severity in Severity), NEVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of a configuration file. A setting is empty if the file does not set it."""

    suppress: tuple[ConfigEntry, ...] = ()
    effects: tuple[DeclaredEffects, ...] = ()
    targets: tuple[str, ...] = ()
    """Names of targets, or paths of target descriptions; relative paths are made absolute from the file's directory."""
    fail_on: str = ""
    """The lowest severity of findings that fail a run, or `never`."""
    strict: bool | None = None
    baseline: Path | None = None
    """The baseline that `check` compares schedules with."""
    known: Path | None = None
    """The file with the findings that `check` allows."""
    autotune_results: Path | None = None
    """The file with the choices of XLA's autotuner with which `check` compiles."""
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    """The bytes of memory, and the bytes copied in one call, that each program is allowed."""


def load_config(path: Path | None, directory: Path, inspected: Sequence[Path] = ()) -> Config:
    """Returns the configuration in `path`, or in the nearest pyproject.toml from `directory` upwards if `path` is None.

    Returns an empty configuration if there is no such file. inspected: a pyproject.toml that came with these paths is
    ignored.

    Raises InputError, in one line with file and key, for a wrong key or value, and for a `path` that has no table
    `[tool.ligerdiag]`.
    """
    file = path or next((file for file in _list_files(directory) if not _came_with(file, inspected)), None)
    if file is None:
        return Config()
    raw = _read_table(file)
    if raw is None:
        if path is not None:
            raise InputError(f"`{file}` has no table {TABLE}: add one, or name another file")
        return Config()
    try:
        return _parse(raw, file)
    except InputError as error:
        raise InputError(f"`{file}`: {error}") from None


def find_foreign_config(directory: Path, inspected: Sequence[Path]) -> Path | None:
    """Returns the pyproject.toml that is ignored because it came with `inspected`, or None if there is none.

    The author of a dump must not decide which findings about the dump are allowed.
    """
    nearest = next(_list_files(directory), None)
    return nearest if nearest is not None and _came_with(nearest, inspected) else None


def _list_files(directory: Path) -> Iterator[Path]:
    here = directory.absolute()
    return (folder / NAME for folder in (here, *here.parents) if (folder / NAME).is_file())


def _came_with(file: Path, inspected: Sequence[Path]) -> bool:
    """Returns whether the file lies in an inspected folder, or beside an inspected file."""
    folder = file.resolve().parent
    return any(
        folder.is_relative_to(path.resolve()) if path.is_dir() else folder == path.resolve().parent
        for path in inspected
    )


def _read_table(file: Path) -> Mapping[str, object] | None:
    """Returns the table `[tool.ligerdiag]` of a file; None if there is none."""
    try:
        with file.open("rb") as stream:
            top = cast("dict[str, object]", tomllib.load(stream))
    except OSError as error:
        raise InputError(f"cannot read `{file}`: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"`{file}` is not TOML: expected text in UTF-8, but byte {error.start + 1} is invalid"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"`{file}` is not TOML: {error}") from None
    tool = top.get("tool")
    table = cast("Mapping[str, object]", tool).get("ligerdiag") if isinstance(tool, Mapping) else None
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InputError(f"`{file}`: expected the table {TABLE} but got {_describe(table)}")
    return cast("Mapping[str, object]", table)


def _parse(raw: Mapping[str, object], file: Path) -> Config:
    require_known(raw, KEYS, TABLE)
    effects = raw.get("effects", {})
    if not isinstance(effects, Mapping):
        raise InputError(f"expected a table for `effects` in {TABLE} but got {_describe(effects)}")
    strict = raw.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InputError(f"expected true or false for `strict` in {TABLE} but got {_describe(strict)}")
    fail_on = raw.get("fail_on", "")
    if "fail_on" in raw and fail_on not in FAIL_ON:
        raise InputError(f"expected one of {', '.join(FAIL_ON)} for `fail_on` in {TABLE} but got {_describe(fail_on)}")
    return Config(
        suppress=_parse_entries(raw.get("suppress", []), file),
        effects=parse_declarations(cast("Mapping[str, object]", effects)),
        targets=_parse_targets(raw.get("targets", []), file),
        fail_on=str(fail_on),
        strict=strict,
        baseline=_parse_file("baseline", raw["baseline"], file) if "baseline" in raw else None,
        known=_parse_file("known", raw["known"], file) if "known" in raw else None,
        autotune_results=(
            _parse_file("autotune_results", raw["autotune_results"], file) if "autotune_results" in raw else None
        ),
        budgets=MemoryBudgets(memory=_parse_budget(raw, "memory_budget"), copies=_parse_budget(raw, "copy_budget")),
    )


def _parse_budget(raw: Mapping[str, object], key: str) -> int | None:
    """Returns the bytes of a budget, given as a size such as "60G" or as an integer; None if the key is missing."""
    value = raw.get(key)
    try:
        size = None if value is None or isinstance(value, bool) else parse_bytes(str(value))
    except ValueError:
        size = None
    least = 0 if key == "copy_budget" else 1
    if key in raw and (size is None or size < least or not isinstance(value, str | int)):
        raise InputError(f'expected a size such as "60G" for `{key}` in {TABLE} but got {_describe(value)}')
    return size


def _parse_targets(value: object, file: Path) -> tuple[str, ...]:
    names = cast("Sequence[object]", value) if isinstance(value, list) else ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in names):
        got = _describe(cast("object", value))
        raise InputError(f'expected a list such as ["h100"] for `targets` in {TABLE} but got {got}')
    beside = file.absolute().parent
    targets = [str(name) for name in names]
    return tuple(dict.fromkeys(str(beside / name) if (beside / name).is_file() else name for name in targets))


def _parse_file(key: str, value: object, file: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise InputError(f"expected a file path for `{key}` in {TABLE} but got {_describe(value)}")
    return file.absolute().parent / value


def _parse_entries(value: object, file: Path) -> tuple[ConfigEntry, ...]:
    where = "[[tool.ligerdiag.suppress]]"
    if not isinstance(value, list):
        raise InputError(f"expected an array of tables {where} but got {_describe(value)}")
    items = cast("Sequence[object]", value)
    return tuple(_parse_entry(item, f"{where} number {number}", file) for number, item in enumerate(items, start=1))


def _parse_entry(value: object, where: str, file: Path) -> ConfigEntry:
    if not isinstance(value, Mapping):
        raise InputError(f"expected a table with `rule` and `reason` for {where} but got {_describe(value)}")
    fields = cast("Mapping[str, object]", value)
    require_known(fields, (*REQUIRED, *FILTERS), where)
    for key in REQUIRED:
        if key not in fields:
            raise InputError(f"expected `{key}` in {where}: a suppression needs its rule and a reason")
    words = {key: _read_words(fields[key], key, where) for key in fields}
    try:
        rule = get_rule(words["rule"])
    except InputError as error:
        raise InputError(f"expected the id or the name of a rule for `rule` in {where}: {error}") from None
    return ConfigEntry(
        rule=rule.id,
        reason=words["reason"],
        directory=str(file.resolve().parent),
        where=f"{file.name} {where}",
        is_asked=False,
        **{key: words[key] for key in FILTERS if key in words},
    )


def _read_words(value: object, key: str, where: str) -> str:
    """Returns the value, which must be a non-empty string on one line; raises InputError for any other."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"expected a non-empty string for `{key}` in {where} but got {_describe(value)}")
    return join_lines(value)


def require_known(fields: Mapping[str, object], known: Sequence[str], where: str) -> None:
    """Raises InputError for an unknown key. The message names the nearest known key.

    where: the place of the fields, for the message.
    """
    for key in fields:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f", did you mean `{near[0]}`" if near else ""
            raise InputError(f"expected one of {', '.join(known)} in {where} but got `{key}`{hint}")


def _describe(value: object) -> str:
    return f"{value!r:.60} (type={type(value).__name__})"
