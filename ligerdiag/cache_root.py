"""The place of the cache; see `artifacts.cache` for what is in it."""

import os
from pathlib import Path

import platformdirs


def find_cache_root(root: Path | None = None) -> Path:
    """Returns the absolute path of the cache at `root`, by default that of LIGERDIAG_CACHE_DIR or the user's; makes
    nothing."""
    given = os.environ.get("LIGERDIAG_CACHE_DIR")
    return (root or Path(given or platformdirs.user_cache_dir("ligerdiag"))).absolute()
