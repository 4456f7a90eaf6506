"""The cache: artifacts by content, and an index that finds them without tracing anything.

    <root>/artifacts/<sha256 of program, names, target, toolchain, flags>/   see `artifacts` and `artifact_store`
    <root>/index/<sha256 of the question>.json                               files it depended on, and the answer
    <root>/replays/<sha256 of the question>.json                             the same, for what replay computed
    <root>/toolchains/<name>-<hash of the pins>/                             see `environments`
    <root>/locks, <root>/packages, <root>/triton

An index entry answers "the cases of this file" or "the artifact of this case on this target". It holds as long as each
file of the project that was imported for the answer has the sha256 that it had. Whatever cannot be read is a miss.
Failures are never kept.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import platformdirs

from ligerdiag.compile.artifact_store import find_artifact
from ligerdiag.compile.artifacts import MAXIMUM_JSON_BYTES, Artifact, compute_file_sha256
from ligerdiag.compile.fields import FieldError, Json, parse_object, read_object, read_str_map
from ligerdiag.compile.scratch_folder import remove_stale_folders_once
from ligerdiag.errors import InputError

INDEX, REPLAYS, TOOLCHAINS = "index", "replays", "toolchains"
"""Folders of questions and answers; of environments."""
SCRATCH_PREFIX = ".tmp-"
SCRATCH_SECONDS = 24 * 3600.0
"""A temporary directory that is older was left by a process that died."""


def find_cache_root(root: Path | None = None) -> Path:
    """The absolute path of the cache at `root`, by default that of LIGERDIAG_CACHE_DIR or the user's; makes nothing."""
    given = os.environ.get("LIGERDIAG_CACHE_DIR")
    return (root or Path(given or platformdirs.user_cache_dir("ligerdiag"))).absolute()


class Cache:
    """One cache directory; one object per run, as it remembers the hashes of the files it looked at."""

    def __init__(self, root: Path | None = None) -> None:
        """Opens the cache at `root`, by default LIGERDIAG_CACHE_DIR or the user's; InputError when it is not writable.

        Nothing is written before the first entry, except that the directories are made.
        """
        self.root = find_cache_root(root)
        self.artifacts = self.root / "artifacts"
        self._hashes: dict[str, str] = {}
        try:
            self.artifacts.mkdir(parents=True, exist_ok=True)
            for folder in (INDEX, REPLAYS):
                (self.root / folder).mkdir(exist_ok=True)
            self._remove_abandoned()
            remove_stale_folders_once()
        except OSError as error:
            raise InputError(
                f"cannot use the cache directory `{self.root}` ({error.strerror}): set LIGERDIAG_CACHE_DIR"
            ) from error

    def forget_hashes(self) -> None:
        """Looks at files anew from here on."""
        self._hashes.clear()

    def allocate_scratch(self) -> Path:
        """A name for a temporary directory beside the artifacts; the caller removes it."""
        return self.artifacts / f"{SCRATCH_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:12]}"

    def find_artifact(self, key: str) -> Artifact | None:
        """The artifact of that key, when it is there and whole."""
        return find_artifact(self.artifacts, key)

    def find_answer(self, question: Mapping[str, object], folder: str = INDEX) -> Json | None:
        """What was answered to the question, when no file that the answer depended on has changed since."""
        try:
            path = self._locate(question, folder)
            if path.stat().st_size > MAXIMUM_JSON_BYTES:
                return None
            entry = parse_object(path.read_bytes())
            dependencies = read_str_map(entry, "dependencies")
            answer = read_object(entry, "answer")
        except (OSError, FieldError):
            return None
        if not dependencies or any(self._hash(file) != digest for file, digest in dependencies.items()):
            return None
        return answer

    def keep_answer(
        self,
        question: Mapping[str, object],
        dependencies: Mapping[str, str],
        answer: Mapping[str, object],
        folder: str = INDEX,
    ) -> None:
        """Writes the answer down; a cache that cannot be written costs time, not the run."""
        path = self._locate(question, folder)
        temporary = path.with_name(f"{SCRATCH_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:12]}")
        text = json.dumps({"question": question, "dependencies": dict(dependencies), "answer": answer}, indent=1)
        try:
            temporary.write_text(text + "\n", encoding="utf-8")
            os.replace(temporary, path)
        except OSError:
            pass
        finally:
            temporary.unlink(missing_ok=True)

    def _locate(self, question: Mapping[str, object], folder: str) -> Path:
        digest = sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
        return self.root / folder / f"{digest}.json"

    def _hash(self, file: str) -> str:
        if file not in self._hashes:
            try:
                self._hashes[file] = compute_file_sha256(Path(file))
            except (OSError, ValueError):
                self._hashes[file] = ""
        return self._hashes[file]

    def _remove_abandoned(self) -> None:
        for folder in (self.artifacts, *(self.root / name for name in (INDEX, REPLAYS, TOOLCHAINS))):
            for path in folder.glob(f"{SCRATCH_PREFIX}*"):
                try:
                    if time.time() - path.stat().st_mtime > SCRATCH_SECONDS:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                except OSError:
                    continue
