"""Chooses the ptxas: that of the package `nvidia-cuda-nvcc`, else that of a CUDA installation which is new enough.

1. XLA takes the ptxas and the nvlink that come first on a worker's PATH. The package's come first if it is installed,
   whatever CUDA the system has.
2. Without the package, a folder that has both is used: one of PATH, of CUDA_HOME, CUDA_PATH or CUDA_ROOT, or below
   /usr/local; the newest of them.
3. New enough means at least the version that the CUDA plugin is built for (13.0), and not older than the ptxas that
   Triton ships: Triton writes PTX of that version, and an older one refuses it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path

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
