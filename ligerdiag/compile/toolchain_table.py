"""The table of toolchains, `toolchains.toml`: what each is made of, and what its XLA needs said differently."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from ligerdiag.compile.fields import FieldError, Json, as_object, read_object, read_str, read_strs
from ligerdiag.compile.job import Flag, parse_flags
from ligerdiag.errors import InputError

TABLE = Path(__file__).parent / "toolchains.toml"
DEFAULT = "default"
"""The toolchain that ligerdiag itself is installed with; stands in no table."""

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.+!]+)")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainSpec:
    """One entry of the table."""

    name: str
    about: str
    python: str
    """Major and minor version, such as `3.12`."""
    packages: Mapping[str, str]
    """Every package of the environment to its version."""
    options: Mapping[str, Flag]
    """Compiler options that a compile without a GPU needs."""
    unknown_target_fields: tuple[str, ...]
    """Paths of the fields of a target description that its XLA does not know."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """The pins, as pip reads them."""
        return tuple(f"{name}=={version}" for name, version in self.packages.items())

    @property
    def directory_name(self) -> str:
        """Of its environment: another set of pins, or another Python, is another environment."""
        return f"{self.name}-{sha256('\n'.join((self.python, *self.requirements)).encode()).hexdigest()[:16]}"


def load_table(path: Path = TABLE) -> dict[str, ToolchainSpec]:
    """Returns the toolchains by name, in the order of the file; FieldError where it is not such a table."""
    return parse_table(path.read_text(encoding="utf-8"))


def parse_table(text: str) -> dict[str, ToolchainSpec]:
    """Returns the toolchains by name, in the order of the text; FieldError where it is not such a table."""
    try:
        fields: Json = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FieldError(f"expected TOML but: {error}") from error
    entries = read_object(fields, "toolchain")
    return {name: _parse_entry(name, as_object(entry, name)) for name, entry in entries.items()}


@cache
def known_toolchains() -> tuple[ToolchainSpec, ...]:
    """Returns the toolchains that come with ligerdiag, in the order of the table."""
    return tuple(load_table().values())


def find_spec(name: str) -> ToolchainSpec:
    """Returns the toolchain of that name; InputError names the known ones."""
    for spec in known_toolchains():
        if spec.name == name:
            return spec
    known = ", ".join((DEFAULT, *(spec.name for spec in known_toolchains())))
    raise InputError(f"expected a toolchain of {known} but got `{name}`")


def _parse_entry(name: str, entry: Json) -> ToolchainSpec:
    if not _NAME.fullmatch(name) or name == DEFAULT:
        raise FieldError(f"expected a name in lower case, other than `{DEFAULT}`, but got `{name}`")
    packages: dict[str, str] = {}
    for pin in read_strs(entry, "packages"):
        match = _PIN.fullmatch(pin)
        if match is None or match["name"] in packages:
            raise FieldError(f"expected one exact version of each package of `{name}` but got `{pin}`")
        packages[match["name"]] = match["version"]
    return ToolchainSpec(
        name=name,
        about=read_str(entry, "about"),
        python=read_str(entry, "python"),
        packages=packages,
        options=parse_flags(read_object(entry, "options")),
        unknown_target_fields=read_strs(entry, "unknown_target_fields"),
    )
