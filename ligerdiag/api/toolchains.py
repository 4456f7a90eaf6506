"""Lists toolchains and makes their environments."""

from collections.abc import Callable
from pathlib import Path

from ligerdiag.compile.cache import Cache
from ligerdiag.compile.environments import provide_toolchain
from ligerdiag.compile.target import load_target
from ligerdiag.toolchain_doctor import ToolchainStatus, diagnose, list_statuses


def list_toolchains(cache_directory: Path | None = None) -> tuple[ToolchainStatus, ...]:
    """Returns the toolchains, the default one first, by what is on the disk: nothing is started."""
    return list_statuses(Cache(cache_directory))


def create_toolchain(name: str, tell: Callable[[str], None], cache_directory: Path | None = None) -> ToolchainStatus:
    """Makes the toolchain's environment unless it exists; reports each step to `tell`. Raises as `check` does."""
    cache = Cache(cache_directory)
    provide_toolchain(name, cache, tell)
    return next(status for status in list_statuses(cache) if status.name == name)


def diagnose_toolchain(name: str, target: str = "h100", cache_directory: Path | None = None) -> ToolchainStatus:
    """Tries the toolchain on a small program for that GPU, if its environment is there; InputError for unknown names."""
    return diagnose(name, Cache(cache_directory), load_target(target))
