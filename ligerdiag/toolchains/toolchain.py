"""Defines a toolchain, one set of versions of jax, its CUDA plugin, jax-triton and triton to compile with, and the
environment variables of a worker process that uses it.

jax, jaxlib and the two packages of the CUDA plugin must have one version; otherwise JAX ignores the plugin with a
warning. JAX's compilation cache is off, because a cached compilation leaves no dump. NumPy gets one thread, because
more would make a fork unsafe (see `workers.loop`).

A worker runs ligerdiag's own source with whichever interpreter its toolchain has. If ligerdiag is an installed package, the
worker of another toolchain finds it through a folder that contains nothing else, because another jax lies beside the
package. A worker starts with only those folders of the user's PYTHONPATH that contain installed packages, and only under our
own interpreter. Otherwise a `signal.py` in another folder would run before the worker does. The variable CASE_PATH has the
whole PYTHONPATH, as absolute paths, and is added to sys.path when a case is imported. If nothing else keeps Python's
bytecode, workers keep it in ligerdiag's cache (see `cache_root`).
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from ligerdiag.cache_root import BYTECODE_FOLDER, NO_BYTECODE, is_bytecode_missing, locate_bytecode
from ligerdiag.errors import CASE_PATH, LigerdiagError, holds_installed
from ligerdiag.missing_packages import render_command
from ligerdiag.model.case import SIZES
from ligerdiag.model.jobs import Flag

ONE_VERSION = ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt")
PACKAGES = (*ONE_VERSION, "triton")
OPTIONAL = ("jax-triton",)
"""Packages that a toolchain may lack; only programs that call them need them."""


class Platform(StrEnum):
    """The platform for which XLA compiles: CUDA for GPUs of NVIDIA, ROCm for GPUs of AMD."""

    CUDA = "cuda"
    ROCM = "rocm"


_DROPPED = ("JAX_COMPILATION_CACHE_DIR", "JAX_DISABLE_JIT", "TRITON_INTERPRET", "PYTHONSAFEPATH")
_FIXED = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TF_CPP_MIN_LOG_LEVEL": "1",
}
_NO_GPU_CHECK = "JAX_SKIP_CUDA_CONSTRAINTS_CHECK"
"""Name of an environment variable. Without it, the CUDA plugin of about jax 0.5 to 0.8 does not load on a machine
without a CUDA library, whatever JAX_PLATFORMS is.
"""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_IMPORTANT = ("JAX_", "XLA_", "TRITON_")
_UNIMPORTANT = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A set of packages in fixed versions, and the Python interpreter that has them."""

    name: str
    python: str
    """Path of the toolchain's Python interpreter."""
    versions: Mapping[str, str]
    """Maps the name of each package to its version; `python` is among the names."""
    options: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """Compiler options that this toolchain's XLA needs to compile without a GPU."""
    platform: Platform = Platform.CUDA
    """The platform that the toolchain's XLA compiles for."""

    @property
    def is_own(self) -> bool:
        """Returns whether this is the toolchain of the running Python interpreter."""
        return self.python == sys.executable


def current_toolchain() -> Toolchain:
    """Returns the toolchain of the running Python interpreter. Does not import its packages. Raises LigerdiagError if a
    package is missing, or if versions do not fit together.
    """
    versions = dict(_read_versions(tuple((folder, _read_time(folder)) for folder in sys.path)))
    missing = [package for package in PACKAGES if package not in versions]
    if missing:
        raise LigerdiagError(
            f"cannot compile for a GPU without {', '.join(f'`{package}`' for package in missing)}:"
            f" `{render_command(_pin(package, versions) for package in missing)}`"
        )
    if len({versions[package] for package in ONE_VERSION}) > 1:
        found = ", ".join(f"{package} {versions[package]}" for package in ONE_VERSION)
        wanted = " ".join(f"{package}=={versions['jax']}" for package in ONE_VERSION[1:])
        raise LigerdiagError(
            f"expected one version of jax, jaxlib and the CUDA plugin but got {found}: install {wanted}"
        )
    versions["python"] = ".".join(str(number) for number in sys.version_info[:3])
    return Toolchain(name=f"jax-{versions['jax']}", python=sys.executable, versions=versions)


@lru_cache(maxsize=8)  # a check asks twice, and the metadata of a package are a long text
def _read_versions(folders: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    """Returns the version of each package that is installed. folders: those of `sys.path`, each with its time of change: the
    installation of a version changes the folder.
    """
    del folders
    versions: dict[str, str] = {}
    for package in (*PACKAGES, *OPTIONAL):
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _read_time(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def describe_interpreter() -> Toolchain:
    """Returns a toolchain without versions, for a worker that compiles nothing. It has the running Python interpreter, whose
    packages are not checked.
    """
    return Toolchain(name="own", python=sys.executable, versions={})


def worker_environment(toolchain: Toolchain, cache_root: Path) -> dict[str, str]:
    """Returns the environment variables for a worker of a toolchain: those of the user, and those that ligerdiag sets.
    Leaves out PYTHONSAFEPATH, and variables that would keep JAX or Triton from compiling, such as JAX_DISABLE_JIT.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED} | _FIXED
    if not environment.get("TRITON_CACHE_DIR"):  # importing jax-triton sets it to an empty string
        environment["TRITON_CACHE_DIR"] = str(cache_root / "triton")
    if is_bytecode_missing("jax"):
        del environment[NO_BYTECODE]
        environment[BYTECODE_FOLDER] = str(locate_bytecode(cache_root))
    package = Path(__file__).resolve().parents[1]
    folder = package.parent
    if not toolchain.is_own:
        environment[_NO_GPU_CHECK] = "1"
        if _INSTALLED & set(folder.parts):
            folder = link_package(package, cache_root)
    python_path = environment.pop("PYTHONPATH", None)
    paths = [] if not python_path else [os.path.abspath(path) for path in python_path.split(os.pathsep)]
    if python_path:
        environment[CASE_PATH] = os.pathsep.join(paths)
    started = [path for path in paths if toolchain.is_own and holds_installed(Path(path))]
    if not _INSTALLED & set(folder.parts):
        started.append(str(folder))
    if started:
        environment["PYTHONPATH"] = os.pathsep.join(started)
    return environment


def compute_important_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the user's environment variables that can change the result of a compile, such as XLA_FLAGS. Every key of the
    cache contains them.
    """
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name.startswith(_IMPORTANT) or name in ("PYTHONPATH", SIZES))
        and name not in _DROPPED
        and name not in _FIXED
        and name not in _UNIMPORTANT
    }


def is_set_for_workers(name: str) -> bool:
    """Returns whether an environment variable may matter to workers. It does if ligerdiag sets or drops it for them, or
    if it can change the result of a compile (see `compute_important_environment`).
    """
    return name in _DROPPED or name in _FIXED or name.startswith((*_IMPORTANT, "PYTHON", "LIGERDIAG_", "TF_CPP_"))


def link_package(package: Path, cache_root: Path) -> Path:
    """Returns a folder in the cache that only contains a link to a package. Makes the folder if it does not exist."""
    folder = cache_root / "packages" / sha256(str(package).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / package.name).symlink_to(package, target_is_directory=True)
    return folder


def _pin(package: str, versions: Mapping[str, str]) -> str:
    if package in ONE_VERSION and "jax" in versions:
        return f"{package}=={versions['jax']}"
    return package
