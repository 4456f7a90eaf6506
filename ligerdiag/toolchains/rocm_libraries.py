"""Writes and loads the libraries that replace ROCm's when XLA compiles for a described AMD GPU. The table
`rocm_libraries.toml` declares them, they are written beside the packages of a toolchain, and they are loaded before JAX's
plugin.

The folder `<environment>/lib/ligerdiag-rocm/` holds these libraries. When a library asks for another one by name, a process
takes the one that it has loaded already. So JAX's plugin gets the libraries of this folder even on a machine that has ROCm,
and no environment variable is needed.
"""

import ctypes
import platform
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from ligerdiag.codec import FieldError, Json, as_object, read_count, read_object, read_str_map, read_strs
from ligerdiag.errors import CompileError, InputError
from ligerdiag.toolchains.shared_objects import StubLibrary, render_shared_object

TABLE = Path(__file__).parent / "rocm_libraries.toml"
FOLDER = Path("lib") / "ligerdiag-rocm"
"""Folder of the libraries in an environment."""
MACHINE = "x86_64"
"""The only kind of machine for which JAX's ROCm plugin exists, and for which libraries are written."""


@cache
def load_libraries() -> tuple[StubLibrary, ...]:
    """Returns the libraries that `rocm_libraries.toml` declares. Raises FieldError if the table is damaged."""
    return parse_libraries(TABLE.read_text(encoding="utf-8"))


def parse_libraries(text: str) -> tuple[StubLibrary, ...]:
    """Returns the libraries that a table declares, in its order. text: the table as TOML. Raises FieldError if it is not
    valid.
    """
    try:
        fields: Json = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FieldError(f"the table is not TOML: {error}") from error
    return tuple(
        _parse_library(soname, as_object(entry, soname)) for soname, entry in read_object(fields, "library").items()
    )


@cache
def compute_libraries_hash() -> str:
    """Returns a sha256 of the files of all libraries. The name of an environment contains it."""
    return sha256(b"".join(render_shared_object(library) for library in load_libraries())).hexdigest()


def write_libraries(environment: Path) -> None:
    """Writes the libraries into an environment. Raises InputError if JAX has no ROCm plugin for this machine."""
    if sys.platform != "linux" or platform.machine() != MACHINE:
        raise InputError(
            f"cannot compile for AMD GPUs on {sys.platform} {platform.machine()}: the ROCm plugin of JAX exists only for"
            f" Linux on {MACHINE}"
        )
    folder = environment / FOLDER
    folder.mkdir(parents=True)
    for library in load_libraries():
        (folder / library.soname).write_bytes(render_shared_object(library))


def list_missing_libraries(environment: Path) -> tuple[str, ...]:
    """Returns the names of the libraries that an environment lacks."""
    found = (library.soname for library in load_libraries())
    return tuple(name for name in found if not (environment / FOLDER / name).is_file())


def preload_libraries(environment: Path) -> None:
    """Loads an environment's libraries into this process. The ROCm plugin of JAX then finds them there. Raises
    CompileError if a library cannot be loaded.
    """
    for library in load_libraries():
        try:
            ctypes.CDLL(str(environment / FOLDER / library.soname), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CompileError(
                f"cannot load a stub of a ROCm library: {error}; remove the folder `{environment}`, and ligerdiag makes it"
                " again"
            ) from error


def _parse_library(soname: str, entry: Json) -> StubLibrary:
    symbols: Mapping[str, tuple[str, ...]] = {
        version: tuple(names.split()) for version, names in read_str_map(entry, "symbols").items()
    }
    texts = frozenset(read_strs(entry, "texts")) if "texts" in entry else frozenset[str]()
    names = [name for each in symbols.values() for name in each]
    if len(set(names)) < len(names) or not texts.issubset(names):
        raise FieldError(f"`{soname}` has a symbol twice, or a name in `texts` that is not among its symbols")
    return StubLibrary(soname=soname, symbols=symbols, returns=read_count(entry, "returns"), texts=texts)
