"""A toolchain: its jax, plugin, jax-triton, triton and ptxas, and the environment its workers run in.

Chooses the ptxas: that of the package `nvidia-cuda-nvcc`, else that of a CUDA installation which is new enough.

1. XLA takes the ptxas and the nvlink that come first on a worker's PATH. The package's come first if it is installed,
   whatever CUDA the system has.
2. Without the package, a folder that has both is used: one of PATH, of CUDA_HOME, CUDA_PATH or CUDA_ROOT, or below
   /usr/local; the newest of them.
3. New enough means at least the version that the CUDA plugin is built for (13.0), and not older than the ptxas that
   Triton ships: Triton writes PTX of that version, and an older one refuses it.

Toolchains: the jax, plugin, jax-triton and triton that compile, and the environment in which their worker runs.

1. jax, jaxlib and the CUDA plugin's two packages must be of one version: else JAX ignores the plugin with a warning.
2. XLA takes ptxas and nvlink from PATH, and a system's older CUDA there refuses the PTX of a newer Triton: the
   environment's own binaries come first. If it has none, those of a CUDA installation may be used: see `ptxas`.
3. JAX's compilation cache would leave no dump behind, so it is off. A thread of numpy would make a fork unsafe, see
   `loop`.
4. A worker runs ligerdiag's own source, whichever interpreter it has. If ligerdiag is an installed package, another
   toolchain's worker finds it through a folder that holds nothing else: beside the package lies another jax.
5. A worker starts only with those folders of the user's PYTHONPATH that hold installed packages, and only under our own
   interpreter: a `signal.py` in another one would run before the worker does. The whole of it is in CASE_PATH, in
   absolute paths, and comes onto sys.path when a case is imported.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path

from ligerdiag.errors import CASE_PATH, LigerdiagError, holds_installed
from ligerdiag.model.jobs import Flag

PACKAGE = "nvidia-cuda-nvcc"
LEAST = (13, 0)
"""Release of CUDA that the plugin's packages are for: jax-cuda13-plugin."""
_LOCAL = Path("/usr/local")
_HOMES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptxas:
    """One that runs."""

    path: Path
    version: str
    """Such as `13.5.37`."""

    @property
    def release(self) -> tuple[int, ...]:
        """Such as (13, 5)."""
        return tuple(int(part) for part in self.version.split(".")[:2])


def find_system_ptxas(environ: Mapping[str, str] = os.environ) -> Ptxas | None:
    """Returns the newest one of a CUDA installation that has nvlink beside it, new enough or not; None where there is
    none."""
    found: list[Ptxas] = []
    for folder in dict.fromkeys(_list_folders(environ)):
        version = _read_version(folder / "ptxas") if (folder / "nvlink").is_file() else ""
        if version:
            found.append(Ptxas(path=folder / "ptxas", version=version))
    return max(found, key=lambda one: one.release, default=None)


def compute_least_release() -> tuple[int, ...]:
    """Returns the oldest release of CUDA whose ptxas does; see 3."""
    spec = util.find_spec("triton")
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    shipped = [_read_version(Path(root) / "backends" / "nvidia" / "bin" / "ptxas") for root in roots]
    releases = [tuple(int(part) for part in version.split(".")[:2]) for version in shipped if version]
    return max((LEAST, *releases))


def describe_ptxas(
    binaries: Sequence[str], versions: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> str:
    """`ptxas 13.5.37 of nvidia-cuda-nvcc 13.5.37 (/…/ptxas)`: of a worker that has these binaries first on PATH."""
    found = shutil.which("ptxas", path=os.pathsep.join((*binaries, environ.get("PATH", os.defpath))))
    if found is None:
        return "no ptxas"
    version = _read_version(Path(found)) or "of unknown version"
    package = next((name for name in versions if name.startswith(PACKAGE)), "")
    is_packaged = package and str(Path(found).parent) in binaries
    whose = f"{package} {versions[package]}" if is_packaged else "a CUDA installation"
    return f"ptxas {version} of {whose} ({found})"


def _list_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        if folder:
            yield Path(folder)
    for name in _HOMES:
        if environ.get(name):
            yield Path(environ[name]) / "bin"
    yield from sorted(folder / "bin" for folder in _LOCAL.glob("cuda*"))


@cache
def _read_version(path: Path) -> str:
    """Returns the version that it prints; empty if it does not run."""
    try:
        done = subprocess.run([path, "--version"], check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    match = _VERSION.search(done.stdout)
    return match[1] if match and not done.returncode else ""


ONE_VERSION = ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt")
PACKAGES = (*ONE_VERSION, "jax-triton", "triton", PACKAGE)

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
    binaries: tuple[str, ...]
    """Directories of ptxas and nvlink."""
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
    system = _find_replacement() if missing == [PACKAGE] else None
    if missing and system is None:
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
    binaries = _find_binaries()
    if system is not None:
        versions["ptxas"] = system.version
        binaries = (str(system.path.parent),)
    return Toolchain(name=f"jax-{versions['jax']}", python=sys.executable, versions=versions, binaries=binaries)


def describe_interpreter() -> Toolchain:
    """Returns that of this interpreter, for a worker that compiles nothing: whether its packages fit together is not
    asked."""
    return Toolchain(name="own", python=sys.executable, versions={}, binaries=())


def worker_environment(toolchain: Toolchain, cache_root: Path) -> dict[str, str]:
    """Returns the environment variables of a worker: the user's, without what would change or hide the compilation."""
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED} | _SETTLED
    environment["PATH"] = os.pathsep.join((*toolchain.binaries, environment.get("PATH", os.defpath)))
    environment.setdefault("TRITON_CACHE_DIR", str(cache_root / "triton"))
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


def compute_important_environment() -> dict[str, str]:
    """Returns the user's variables that can change what is compiled, such as XLA_FLAGS: part of every cache key."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if (name.startswith(_IMPORTANT) or name == "PYTHONPATH")
        and name not in _DROPPED
        and name not in _SETTLED
        and name not in _UNIMPORTANT
    }


def link_package(package: Path, cache_root: Path) -> Path:
    """Returns a folder that holds a link to the package and nothing else; see 4."""
    folder = cache_root / "packages" / sha256(str(package).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / package.name).symlink_to(package, target_is_directory=True)
    return folder


def _find_replacement() -> Ptxas | None:
    """Returns a CUDA installation's ptxas in the package's place; None where there is none. LigerdiagError where it is
    too old."""
    found = find_system_ptxas()
    least = compute_least_release()
    if found is None or found.release >= least:
        return found
    wanted = ".".join(str(part) for part in least)
    raise LigerdiagError(
        f"cannot compile for a GPU without `{PACKAGE}`: `{found.path}` is of CUDA {found.version}, older than"
        f" {wanted}: install {PACKAGE}, or CUDA {wanted}"
    )


def _pin(package: str, versions: Mapping[str, str]) -> str:
    if package in ONE_VERSION and "jax" in versions:
        return f"{package}=={versions['jax']}"
    return package


def _find_binaries() -> tuple[str, ...]:
    spec = util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    return tuple(str(path) for root in roots for path in sorted(Path(root).glob("cu*/bin")) if path.is_dir())
