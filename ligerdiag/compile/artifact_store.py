"""Stores finished artifacts by key, whole or not at all.

1. An artifact is made in a temporary sibling, and moved into place by one rename: no process sees it half written.
2. A process that compiles a key holds its lock; others that want the same program wait, and then find it. The kernel of
   the operating system drops the lock of a process that dies.
3. A damaged or outdated artifact is moved aside before the new one is moved in.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ligerdiag.compile.artifacts import MANIFEST, Artifact, load_artifact, write_manifest
from ligerdiag.errors import ArtifactError

_KEY = re.compile(r"[0-9a-f]{64}")


def find_artifact(artifacts: Path, key: str, not_before: float = 0.0) -> Artifact | None:
    """Returns the artifact of that key, when it is there, whole, and not older than `not_before`."""
    if not _KEY.fullmatch(key):
        return None
    directory = artifacts / key
    try:
        if (directory / MANIFEST).stat().st_mtime < not_before:
            return None
        artifact = load_artifact(directory)
        return artifact if artifact.provenance.key == key else None  # a folder that was moved is no answer
    except (ArtifactError, OSError):
        return None


@contextmanager
def hold_key(artifacts: Path, key: str) -> Generator[None]:
    """Holds the key's lock; waits for the process that has it."""
    locks = artifacts.parent / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{key}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep_artifact(scratch: Path, artifacts: Path, key: str) -> None:
    """Moves the finished directory `scratch` into place; its key's lock must be held."""
    write_manifest(scratch)
    directory = artifacts / key
    if directory.exists():
        aside = scratch.with_name(f"{scratch.name}-old")
        os.rename(directory, aside)
        os.rename(scratch, directory)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(scratch, directory)
