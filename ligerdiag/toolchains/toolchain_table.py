"""Reads the table `toolchains.toml` of pinned toolchains, and derives further ones, such as `jax-0.7.2`, that differ from a
pinned one only in the release of jax.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from ligerdiag.codec import (
    FieldError,
    Json,
    as_object,
    read_object,
    read_record,
    read_str,
    read_str_map,
    read_strs,
    read_word,
)
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import Flag
from ligerdiag.toolchains.rocm_libraries import compute_libraries_hash
from ligerdiag.toolchains.toolchain import Platform

TABLE = Path(__file__).parent / "toolchains.toml"
DEFAULT = "default"
"""Name of the toolchain that ligerdiag itself is installed with; it is not in the table."""

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.+!]+)")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainSpec:
    """One toolchain of the table: its packages, and the options to compile with."""

    name: str
    about: str
    python: str
    """Major and minor version of Python, such as `3.12`."""
    packages: Mapping[str, str]
    """Maps the name of every package in the environment to its version."""
    options: Mapping[str, Flag]
    """Compiler options that this toolchain needs to compile without a GPU."""
    fails_for: tuple[str, ...] = ()
    """Compute capabilities, such as `10.3`, for which the toolchain's compilers abort. For a release of jax, these are the
    compute capabilities of the toolchain `like`; the release itself may abort for fewer of them.
    """
    like: str = ""
    """For a release of jax such as `jax-0.7.2`, the name of the toolchain that pins the other packages; otherwise
    empty.
    """
    platform: Platform = Platform.CUDA
    """The platform that the toolchain's XLA compiles for."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """Returns the pinned packages as lines of a requirements file, such as `jax==0.7.2`."""
        return tuple(f"{name}=={version}" for name, version in self.packages.items())

    @property
    def directory_name(self) -> str:
        """Returns the name of the environment's directory. It contains a hash of the pins and the Python version. For
        ROCm, the hash includes the libraries that ligerdiag writes.
        """
        parts = (self.python, *self.requirements)
        if self.platform is Platform.ROCM:
            parts = (*parts, compute_libraries_hash())
        return f"{self.name}-{sha256('\n'.join(parts).encode()).hexdigest()[:16]}"


def load_table() -> dict[str, ToolchainSpec]:
    """Returns all toolchains by name, with those for single releases of jax, in the order of `toolchains.toml`. Raises
    FieldError if the table is damaged.
    """
    return parse_table(TABLE.read_text(encoding="utf-8"))


def parse_table(text: str) -> dict[str, ToolchainSpec]:
    """Returns the toolchains of a table by name, in its order. After each come the toolchains for its releases of jax. text:
    the table as TOML. Raises FieldError if it is not valid.
    """
    try:
        fields: Json = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FieldError(f"the table is not TOML: {error}") from error
    specs: dict[str, ToolchainSpec] = {}
    for name, entry in read_object(fields, "toolchain").items():
        specs[name] = _parse_entry(name, as_object(entry, name))
        specs |= {spec.name: spec for spec in _list_releases(specs[name], as_object(entry, name))}
    return specs


@cache
def known_toolchains() -> tuple[ToolchainSpec, ...]:
    """Returns the toolchains that the table names, in its order. Those for single releases of jax are not among them."""
    return tuple(spec for spec in load_table().values() if not spec.like)


@cache
def known_releases() -> tuple[ToolchainSpec, ...]:
    """Returns the toolchain for each release of jax, such as `jax-0.7.2`, oldest first."""
    return tuple(spec for spec in load_table().values() if spec.like)


def find_by_platform(platform: Platform) -> str:
    """Returns the name of the toolchain that compiles for a platform if the user names none. It is the default for CUDA, and
    the first one of the table for ROCm.
    """
    if platform is Platform.CUDA:
        return DEFAULT
    return next(spec.name for spec in known_toolchains() if spec.platform is platform)


def find_spec(name: str) -> ToolchainSpec:
    """Returns the toolchain called `name`. Raises InputError, with the known names, if there is none."""
    for spec in (*known_toolchains(), *known_releases()):
        if spec.name == name:
            return spec
    known = ", ".join((DEFAULT, *(spec.name for spec in known_toolchains())))
    first, last = known_releases()[0].name, known_releases()[-1].name
    raise InputError(f"expected a toolchain of {known}, or a release of jax from {first} to {last}, but got `{name}`")


def _parse_entry(name: str, entry: Json) -> ToolchainSpec:
    if not _NAME.fullmatch(name) or name == DEFAULT:
        raise FieldError(
            f"expected a toolchain name of lower-case letters, digits, `.`, `_` and `-`, other than `{DEFAULT}`, but got"
            f" `{name}`"
        )
    packages: dict[str, str] = {}
    for pin in read_strs(entry, "packages"):
        match = _PIN.fullmatch(pin)
        if match is None or match["name"] in packages:
            raise FieldError(f"expected one exact version of each package of `{name}` but got `{pin}`")
        packages[match["name"]] = match["version"]
    if "jax" not in packages:
        raise FieldError(f"expected a version of jax among the packages of `{name}`")
    return ToolchainSpec(
        name=name,
        about=read_str(entry, "about"),
        python=read_str(entry, "python"),
        packages=packages,
        options=read_record(Mapping[str, Flag], entry, "options"),
        fails_for=tuple(read_strs(entry, "fails_for")) if "fails_for" in entry else (),
        platform=read_word(Platform, entry, "platform") if "platform" in entry else Platform.CUDA,
    )


def _list_releases(base: ToolchainSpec, entry: Json) -> Iterator[ToolchainSpec]:
    """Yields a toolchain for each release of jax that the entry of `base` lists: the packages of `base` with that jax
    and its jaxlib.
    """
    releases = read_str_map(entry, "releases") if "releases" in entry else {}
    for jax, jaxlib in releases.items():
        _read_version(jax)
        _read_version(jaxlib)
        own = {
            name: jax if name == "jax" else jaxlib
            for name in base.packages
            if name in ("jax", "jaxlib") or name.startswith("jax-cuda")
        }
        yield replace(
            base,
            name=f"jax-{jax}",
            about=f"as `{base.name}`, with jax {jax}",
            packages={**base.packages, **own},
            like=base.name,
        )


def _read_version(text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split(".")))
    except ValueError:
        raise FieldError(f"expected a release such as `0.9.0.1` but got `{text}`") from None
