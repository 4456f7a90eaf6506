"""Finds the cache's folder, and keeps Python's bytecode in it (`artifacts.cache` describes its other contents).

Images of containers often set PYTHONDONTWRITEBYTECODE, and uv installs packages without bytecode. Each process would then
compile the modules that it imports. This takes two of the three seconds that a worker needs for JAX and Triton, and a
quarter of a second of each command. So ligerdiag keeps bytecode in its cache, unless a package was installed with its
bytecode or the user names a folder for it. Bytecode is code: it is never read from a folder that others may write to.
"""

import os
import stat
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

NO_BYTECODE, BYTECODE_FOLDER = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def find_cache_root(root: Path | None = None) -> Path:
    """Returns the absolute path of the cache, without creating anything.

    It is `root`. If that is None, it is LIGERDIAG_CACHE_DIR, or the user's cache folder if this variable is not set.
    """
    given = os.environ.get("LIGERDIAG_CACHE_DIR")
    if root is None and not given:
        import platformdirs  # a toolchain's environment lacks it: its workers get LIGERDIAG_CACHE_DIR

        given = platformdirs.user_cache_dir("ligerdiag")
    return (root or Path(str(given))).absolute()


def is_bytecode_missing(package: str) -> bool:
    """Returns whether this interpreter would compile a package's sources again in every process.

    Does not import the package.
    """
    if not os.environ.get(NO_BYTECODE) or os.environ.get(BYTECODE_FOLDER):
        return False
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return True
    name = Path(cache_from_source(spec.origin)).name  # the folder may be the one in ligerdiag's cache
    return not (Path(spec.origin).parent / "__pycache__" / name).exists()


def locate_bytecode(cache_root: Path) -> Path:
    """Returns the folder in the cache for Python's bytecode. The folder need not exist."""
    return cache_root / "bytecode"


def keep_own_bytecode(cache_root: Path) -> None:
    """Makes this process keep the bytecode of later imports in the cache, and read it from there.

    Does nothing if Python already keeps the bytecode elsewhere.
    """
    if is_bytecode_missing("typer") and _is_private(cache_root):
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(locate_bytecode(cache_root))


def _is_private(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:  # the folder is missing: the first command makes it
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
