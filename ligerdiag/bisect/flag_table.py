"""The XLA flags that are tried: `flags.toml` beside this file."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ligerdiag.compile.fields import FieldError, as_list, as_object, read_str
from ligerdiag.compile.job import Flag

TABLE = Path(__file__).parent / "flags.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagValue:
    """One flag with one value."""

    name: str
    value: Flag
    family: str
    """The part of the compile that it changes, in a word or two."""
    about: str

    @property
    def text(self) -> str:
        """Such as `xla_gpu_async_dot=true`."""
        value = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return f"{self.name}={value or "''"}"

    @property
    def quoted(self) -> str:
        """The same for a sentence."""
        return f"`{self.text}`"


def load_flags() -> tuple[FlagValue, ...]:
    """Each value of each flag, in the order of the file."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    flags = [as_object(entry, "flag") for entry in as_list(table.get("flag"), "flag")]
    return tuple(
        FlagValue(
            name=read_str(flag, "name"),
            value=_parse_value(value, read_str(flag, "name")),
            family=read_str(flag, "family"),
            about=read_str(flag, "about"),
        )
        for flag in flags
        for value in as_list(flag.get("values"), "values")
    )


def _parse_value(value: object, name: str) -> Flag:
    if not isinstance(value, str | int | float | bool):
        raise FieldError(f"expected a plain value for flag `{name}` but got {value!r:.60}")
    return value
