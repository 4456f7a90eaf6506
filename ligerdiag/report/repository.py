"""A file's path in the user's repository, by which a code host knows it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WORKSPACE = "GITHUB_WORKSPACE"
"""Environment variable with the directory that a workflow checked the repository out to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A checkout, and where the run stands in it."""

    root: str
    """Absolute path of the checkout's directory."""
    current: str
    """Absolute path that relative paths start from."""

    def find(self, file: str) -> str:
        """Returns the path of `file` below the root, with `/`; empty when it is outside, or no path at all.

        Links are followed only where the path as it is written lies outside.
        """
        path = self.compute_absolute(file)
        if not path:
            return ""
        below = _compute_below(path, self.root)
        if below:
            return below
        try:
            return _compute_below(os.path.realpath(path), os.path.realpath(self.root))
        except (OSError, ValueError):
            return ""

    def compute_absolute(self, file: str) -> str:
        """Returns the absolute path; empty for what is no path, such as `<string>`."""
        if not file or file.startswith("<") or "\0" in file:
            return ""
        return os.path.normpath(os.path.join(self.current, file))


def find_repository(environ: Mapping[str, str] = os.environ) -> Repository:
    """Returns the directory of `GITHUB_WORKSPACE` where that is there, else the working directory."""
    current = str(Path.cwd())
    workspace = environ.get(WORKSPACE, "")
    return Repository(root=os.path.abspath(workspace) if os.path.isdir(workspace) else current, current=current)


def _compute_below(path: str, root: str) -> str:
    """`path` relative to `root`; empty when it is not below."""
    start = root.rstrip(os.sep) + os.sep
    return path.removeprefix(start).replace(os.sep, "/") if path.startswith(start) else ""
