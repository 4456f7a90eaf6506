"""Toolchains: the jax, plugin, jax-triton and triton that compile, and the environment in which their worker runs.

1. jax, jaxlib and the CUDA plugin's two packages must be of one version: else JAX ignores the plugin with a warning.
2. JAX's compilation cache would leave no dump behind, so it is off. A thread of numpy would make a fork unsafe, see
   `loop`.
3. A worker runs ligerdiag's own source, whichever interpreter it has. If ligerdiag is an installed package, another
   toolchain's worker finds it through a folder that holds nothing else: beside the package lies another jax.
4. A worker starts only with those folders of the user's PYTHONPATH that hold installed packages, and only under our own
   interpreter: a `signal.py` in another one would run before the worker does. The whole of it is in CASE_PATH, in
   absolute paths, and comes onto sys.path when a case is imported.
5. Where nobody keeps bytecode, workers keep it in ligerdiag's cache, see `cache_root`.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from ligerdiag.cache_root import BYTECODE_FOLDER, NO_BYTECODE, is_bytecode_missing, locate_bytecode
from ligerdiag.errors import CASE_PATH, LigerdiagError, holds_installed
from ligerdiag.model.case import SIZES
from ligerdiag.model.jobs import Flag

ONE_VERSION = ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt")
PACKAGES = (*ONE_VERSION, "triton")
OPTIONAL = ("jax-triton",)
"""What only a program that calls it needs."""

_DROPPED = ("JAX_COMPILATION_CACHE_DIR", "JAX_DISABLE_JIT", "TRITON_INTERPRET", "PYTHONSAFEPATH")
_SETTLED = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TF_CPP_MIN_LOG_LEVEL": "1",
}
_NO_GPU_CHECK = "JAX_SKIP_CUDA_CONSTRAINTS_CHECK"
"""Without it the plugin of jax 0.5 to 0.8 or so does not load if there is no CUDA library, whatever JAX_PLATFORMS
says."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_IMPORTANT = ("JAX_", "XLA_", "TRITON_")
_UNIMPORTANT = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """One pinned set of packages and the interpreter that has them."""

    name: str
    python: str
    """Path of the interpreter."""
    versions: Mapping[str, str]
    """Package name to version; `python` is among them."""
    options: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """Compiler options that its XLA needs for a GPU that is not there."""
    unknown_target_fields: tuple[str, ...] = ()
    """Fields of a target description that its XLA does not know."""

    @property
    def is_own(self) -> bool:
        """Returns whether it is the one of this interpreter."""
        return self.python == sys.executable


def current_toolchain() -> Toolchain:
    """Returns the toolchain of this interpreter, without importing it; LigerdiagError when its packages do not fit
    together."""
    versions: dict[str, str] = {}
    missing: list[str] = []
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            missing.append(package)
    for package in OPTIONAL:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    if missing:
        raise LigerdiagError(
            f"cannot compile for a GPU without {', '.join(f'`{package}`' for package in missing)}:"
            f" install {' '.join(_pin(package, versions) for package in missing)}"
        )
    if len({versions[package] for package in ONE_VERSION}) > 1:
        found = ", ".join(f"{package} {versions[package]}" for package in ONE_VERSION)
        wanted = " ".join(f"{package}=={versions['jax']}" for package in ONE_VERSION[1:])
        raise LigerdiagError(
            f"expected one version of jax, jaxlib and the CUDA plugin but got {found}: install {wanted}"
        )
    versions["python"] = ".".join(str(number) for number in sys.version_info[:3])
    return Toolchain(name=f"jax-{versions['jax']}", python=sys.executable, versions=versions)


def describe_interpreter() -> Toolchain:
    """Returns that of this interpreter, for a worker that compiles nothing: whether its packages fit together is not
    asked."""
    return Toolchain(name="own", python=sys.executable, versions={})


def worker_environment(toolchain: Toolchain, cache_root: Path) -> dict[str, str]:
    """Returns the environment variables of a worker: the user's, without what would change or hide the compilation."""
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED} | _SETTLED
    if not environment.get("TRITON_CACHE_DIR"):  # an import of jax-triton leaves it empty
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
    given = environment.pop("PYTHONPATH", None)
    paths = [] if not given else [os.path.abspath(path) for path in given.split(os.pathsep)]
    if given:
        environment[CASE_PATH] = os.pathsep.join(paths)
    started = [path for path in paths if toolchain.is_own and holds_installed(Path(path))]
    if not _INSTALLED & set(folder.parts):
        started.append(str(folder))
    if started:
        environment["PYTHONPATH"] = os.pathsep.join(started)
    return environment


def compute_important_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the user's variables that can change what is compiled, such as XLA_FLAGS: part of every cache key."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name.startswith(_IMPORTANT) or name in ("PYTHONPATH", SIZES))
        and name not in _DROPPED
        and name not in _SETTLED
        and name not in _UNIMPORTANT
    }


def link_package(package: Path, cache_root: Path) -> Path:
    """Returns a folder that holds a link to the package and nothing else; see 3."""
    folder = cache_root / "packages" / sha256(str(package).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / package.name).symlink_to(package, target_is_directory=True)
    return folder


def _pin(package: str, versions: Mapping[str, str]) -> str:
    if package in ONE_VERSION and "jax" in versions:
        return f"{package}=={versions['jax']}"
    return package
