"""Adds the site of this version to those of other versions, in the branch gh-pages: `python -m tools.deploy_site`.

mike commits the pages to a folder of the minor version, such as `0.1/`, over the pages of an older patch. The newest
version is also `latest/`, to which the start of the site leads; a late patch of an older version leaves that alone.
Nothing is pushed. It reads the project in the working directory.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from ligerdiag.package_metadata import LATEST, compute_site_folder

BRANCH = "gh-pages"
_MINOR = re.compile(r"(\d+)\.(\d+)")
_BEFORE_RELEASE = re.compile(r"(a|b|rc|\.?dev)\d")


def is_newest(folder: str, others: Iterable[str]) -> bool:
    """Returns whether no other folder is of a newer minor version. others: folders of the site; may include `folder`."""
    return all(_rank(folder) >= _rank(other) for other in others)


def _rank(folder: str) -> tuple[int, int]:
    match = _MINOR.fullmatch(folder)
    return (-1, -1) if match is None else (int(match[1]), int(match[2]))


def list_versions() -> list[str]:
    """Returns the folders of the versions that the branch has."""
    done = _run_mike("list", "--json", capture=True)
    return [one["version"] for one in json.loads(done or "[]")]


def deploy(version: str) -> None:
    """Commits the site of this version of ligerdiag to the branch. Raises CalledProcessError if a command of mike fails."""
    folder = compute_site_folder(version)
    newest = not _BEFORE_RELEASE.search(version) and is_newest(folder, list_versions())
    _run_mike("deploy", "--update-aliases", folder, *([LATEST] if newest else []))
    if newest:
        _run_mike("set-default", LATEST)


def _run_mike(command: str, *words: str, capture: bool = False) -> str:
    programs = Path(sys.executable).parent  # mike runs mkdocs by its name
    done = subprocess.run(
        ["mike", command, "--branch", BRANCH, *words],
        check=True,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE if capture else None,
        text=True,
    )
    return done.stdout or ""


def main() -> int:
    """Returns 0."""
    deploy(tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
