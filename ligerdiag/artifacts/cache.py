"""Implements the cache: artifacts, named by a hash of their inputs, and an index that finds them without tracing anything.

    <root>/artifacts/<sha256 of program, names, target, toolchain, flags>/   see `artifact`
    <root>/index/<sha256 of the question>.json                               an answer, and the files that it depends on
    <root>/replays/<sha256 of the question>.json                             the same, for results of replay
    <root>/toolchains/<name>-<hash of the pins>/                             see `toolchains.environments`
    <root>/effects/<sha256 of a custom call>.json                            see `effects.isolated`
    <root>/runs/<sha256 of a folder>.json                                    the cases to repeat, see `api.last_run`
    <root>/tuning/<sha256 of the content>.textproto or .pb                   see `toolchains.tuning_file`
    <root>/locks, <root>/packages, <root>/triton, <root>/bytecode            see `toolchains.toolchain`

An index entry answers "the cases of this file" or "the artifact of this case on this target". It is valid as long as
everything that the user's code read for the answer is unchanged (see `dependencies`). An entry counts as missing if its
file cannot be read, or if its question or key is not the one that was looked up. Failures are never kept.

An artifact is built in a temporary sibling directory and renamed into place, so no process sees a partial one. A
process that makes an artifact holds the lock of its program; other processes that want the same program wait and then
find the artifact. The operating system drops the lock of a process that dies. A damaged or outdated artifact is renamed
away before the new one takes its place.

The cache does not trust files that others can write: it refuses a folder that another user owns or that others may
write to. The next process that opens the cache removes the temporary files of processes that died (see
`scratch_folders`).
"""

import fcntl
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path

from ligerdiag.artifacts.artifact import (
    MANIFEST,
    MAXIMUM_JSON_BYTES,
    Artifact,
    load_artifact,
    write_manifest,
)
from ligerdiag.artifacts.dependencies import compute_digest, drop_unseen, is_kept_in_memory
from ligerdiag.artifacts.scratch_folders import Lease, hold_lease, is_held, remove_stale_folders_once
from ligerdiag.cache_root import find_cache_root
from ligerdiag.codec import FieldError, Json, parse_object, read_object, read_str_map
from ligerdiag.errors import ArtifactError, InputError
from ligerdiag.untrusted_files import read_untrusted

INDEX, REPLAYS, TOOLCHAINS, LOCKS, EFFECTS = "index", "replays", "toolchains", "locks", "effects"
"""Names of the cache's folders: answers, results of replays, toolchain environments, locks, and effects of kernels."""
RUNS = "runs"
"""Name of the cache's folder of records about the last run in each folder of the user's."""
SCRATCH_PREFIX = ".tmp-"
RUN_PREFIX = "run-"
_SCRATCH = re.compile(rf"{re.escape(SCRATCH_PREFIX)}(\d+-[0-9a-f]{{12}})-\d+")
SCRATCH_SECONDS = 24 * 3600.0
"""Age in seconds after which a temporary directory counts as left by a process that has died."""


class Cache:
    """The cache in one directory. A run shares one object, because the object remembers the hashes of the files that it
    has read.
    """

    def __init__(self, root: Path | None = None) -> None:
        """Opens the cache at `root`, by default LIGERDIAG_CACHE_DIR or the user's cache folder; makes the directories
        and removes the leftovers of dead processes.

        Raises InputError if the directories cannot be used.
        """
        self.root = find_cache_root(root)
        self.artifacts = self.root / "artifacts"
        self._hashes: dict[str, str] = {}
        self._run = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._lease: Lease | None = None
        self._numbers = count()
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.root, self.artifacts, *(self.root / name for name in (INDEX, REPLAYS, LOCKS))):
                folder.mkdir(mode=0o700, exist_ok=True)
            self._require_private()
            with suppress(OSError):  # a read-only cache is still read
                self._lease = hold_lease(self._locate_lease(self._run))
            self._remove_abandoned()
            remove_stale_folders_once()
        except OSError as error:
            raise InputError(
                f"cannot use the cache directory `{self.root}` ({error.strerror}): set LIGERDIAG_CACHE_DIR"
            ) from error

    def forget_hashes(self) -> None:
        """Forgets the hashes of all files, so that changed files are noticed."""
        self._hashes.clear()

    def allocate_scratch(self) -> Path:
        """Returns an unused path for a temporary directory beside the artifacts. The caller makes and removes the
        directory.
        """
        return self.artifacts / self._name_scratch()

    def find_artifact(self, key: str) -> Artifact | None:
        """Returns the artifact with that key. Returns None if there is none, or if it is damaged."""
        return find_artifact(self.artifacts, key)

    def find_answer(self, question: Mapping[str, object], folder: str = INDEX) -> Json | None:
        """Returns the answer that `keep_answer` wrote for the question. Returns None if there is none, or if it depends
        on no file. Also returns None if one of the files on which it depends has changed.

        folder: the folder that `keep_answer` got: INDEX for cases and artifacts, REPLAYS for results of replay.
        """
        found = self._find_entry(question, folder)
        return None if found is None else found[0]

    def find_dependencies(self, question: Mapping[str, object]) -> dict[str, str] | None:
        """Returns the files on which the stored answer to the question depends, each with its sha256. Returns None if
        there is no answer, or if one of the files has changed. An answer that `find_answer` never returns has
        dependencies, too.
        """
        found = self._read_entry(question, INDEX)
        return None if found is None or not self.are_unchanged(drop_unseen(found[1])) else found[1]

    def are_unchanged(self, dependencies: Mapping[str, str]) -> bool:
        """Returns whether each dependency, a file or an environment variable, still has the digest in `dependencies`."""
        return all(self._digest(name) == digest for name, digest in dependencies.items())

    def _find_entry(self, question: Mapping[str, object], folder: str) -> tuple[Json, dict[str, str]] | None:
        found = self._read_entry(question, folder)
        return found if found is not None and self.are_unchanged(found[1]) else None

    def _read_entry(self, question: Mapping[str, object], folder: str) -> tuple[Json, dict[str, str]] | None:
        try:
            entry = parse_object(read_untrusted(self._locate(question, folder), MAXIMUM_JSON_BYTES))
            dependencies = read_str_map(entry, "dependencies")
            answer = read_object(entry, "answer")
            if read_object(entry, "question") != json.loads(json.dumps(question)):
                return None
        except (ArtifactError, FieldError):
            return None
        return (answer, dependencies) if dependencies else None

    def keep_answer(
        self,
        question: Mapping[str, object],
        dependencies: Mapping[str, str],
        answer: Mapping[str, object],
        folder: str = INDEX,
    ) -> None:
        """Stores an answer to the question. `find_answer` returns it as long as the dependencies do not change. Errors
        are ignored, because a cache that cannot be written only costs time.

        dependencies: file to sha256; if there are none, `find_answer` never returns the answer. folder: the folder of
        the cache that gets the answer: INDEX for cases and artifacts, REPLAYS for results of replay.
        """
        path = self._locate(question, folder)
        temporary = path.with_name(self._name_scratch())
        text = json.dumps({"question": question, "dependencies": dict(dependencies), "answer": answer}, indent=1)
        try:
            temporary.write_text(text + "\n", encoding="utf-8")
            os.replace(temporary, path)
        except OSError:
            pass
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _name_scratch(self) -> str:
        return f"{SCRATCH_PREFIX}{self._run}-{next(self._numbers)}"

    def _locate_lease(self, run: str) -> Path:
        return self.root / LOCKS / f"{RUN_PREFIX}{run}.lock"

    def _require_private(self) -> None:
        """Raises InputError if another user could have put files into the cache."""
        open_to_others = self.root.stat().st_mode & 0o077
        for folder in (self.root, *(path for path in self.root.iterdir() if path.is_dir())):
            status = folder.stat()
            if {status.st_uid, folder.lstat().st_uid} != {os.geteuid()}:
                raise InputError(
                    f"another user owns the cache directory `{folder}` and controls its content:"
                    " set LIGERDIAG_CACHE_DIR to a folder of your own"
                )
            if open_to_others and status.st_mode & 0o022:
                raise InputError(
                    f"other users can write to the cache directory `{folder}`:"
                    " remove it, or set LIGERDIAG_CACHE_DIR to a folder of your own"
                )

    def _locate(self, question: Mapping[str, object], folder: str) -> Path:
        digest = sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
        return self.root / folder / f"{digest}.json"

    def _digest(self, dependency: str) -> str:
        if is_kept_in_memory(dependency):
            return compute_digest(dependency)
        if dependency not in self._hashes:
            self._hashes[dependency] = compute_digest(dependency)
        return self._hashes[dependency]

    def _remove_abandoned(self) -> None:
        for folder in (self.artifacts, *(self.root / name for name in (INDEX, REPLAYS, TOOLCHAINS))):
            for path in folder.glob(f"{SCRATCH_PREFIX}*"):
                try:
                    if time.time() - path.stat().st_mtime > SCRATCH_SECONDS or self._is_left(path.name):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                except OSError:
                    continue
        unheld = (*(self.root / LOCKS).glob(f"{RUN_PREFIX}*.lock"), *(self.root / EFFECTS).glob(".*"))
        for path in unheld:
            with suppress(OSError):
                if not is_held(path):
                    path.unlink()

    def _is_left(self, name: str) -> bool:
        """Whether the run that made the temporary file or folder of that name has ended."""
        found = _SCRATCH.match(name)
        return found is not None and not is_held(self._locate_lease(found[1]))


_KEY = re.compile(r"[0-9a-f]{64}")
_PROGRAM_DIGITS = 40
"""Number of hexadecimal digits, at the beginning of a key, that identify the program; 160 bits do not collide by
chance.
"""


def find_artifact(artifacts: Path, key: str, not_before: float = 0.0) -> Artifact | None:
    """Returns the artifact with that key in the folder `artifacts`. Returns None if there is none, or if it is damaged
    or too old.

    not_before: seconds since the epoch; older artifacts do not count.
    """
    if not _KEY.fullmatch(key):
        return None
    directory = artifacts / key
    try:
        if (directory / MANIFEST).stat().st_mtime < not_before:
            return None
        artifact = load_artifact(directory)
        return artifact if artifact.provenance.key == key else None  # not a folder that somebody renamed
    except (ArtifactError, OSError):
        return None


def join_key(program: str, names: str) -> str:
    """Joins two hashes of 64 hexadecimal digits into a key of 64 digits. It has the first 40 digits of the program's
    hash and the last 24 of the names' hash.
    """
    return program[:_PROGRAM_DIGITS] + names[_PROGRAM_DIGITS:]


def get_program(key: str) -> str:
    """Returns the part of an artifact's key that all artifacts of one program share."""
    return key[:_PROGRAM_DIGITS]


def find_same_program(artifacts: Path, key: str, not_before: float = 0.0) -> Artifact | None:
    """Returns an undamaged artifact of the program to which `key` belongs. Its names may be those of another case.
    Returns None if there is none; of several, returns the one with the smallest key.

    not_before: seconds since the epoch; older artifacts do not count.
    """
    if not _KEY.fullmatch(key):
        return None
    keys = sorted(path.name for path in artifacts.glob(f"{get_program(key)}*"))
    return next((found for one in keys if (found := find_artifact(artifacts, one, not_before)) is not None), None)


@contextmanager
def hold_key(artifacts: Path, key: str) -> Generator[None]:
    """Holds the lock of the key's program inside the context. First waits until no other process holds the lock."""
    locks = artifacts.parent / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{get_program(key)}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep_artifact(scratch: Path, artifacts: Path, key: str) -> None:
    """Moves the finished directory `scratch` to the place of the artifact with that key. The caller must hold the lock
    of the key (`hold_key`).
    """
    write_manifest(scratch)
    directory = artifacts / key
    if directory.exists():
        aside = scratch.with_name(f"{scratch.name}-old")
        os.rename(directory, aside)
        os.rename(scratch, directory)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(scratch, directory)
