"""Stores the results of tasks by key, in a folder or at any URL that fsspec supports: one JSON file a task.

    <store>/<key>.json      {"format": 3, "key": ..., "task": {case, target, ...}, "dependencies": {file: sha256},
                             "report": the report of check --format json,
                             "data": the whole report, packed, for a page; empty without one}

A result is written to a temporary file and then moved to its name, so two workers may do the same task. Files of the store
are not trusted, because others may write there. A file that is not a complete result of its key and task does not count, and
the task runs again. In a folder, only regular files are opened. If the store cannot be reached, every method raises
InputError with a remedy, on a worker, too, instead of treating the store as empty. A result is valid as long as the files
listed in `dependencies` have the sha256 given there.
"""

import json
import uuid
from base64 import b64decode, b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ligerdiag.codec import FieldError, Json, parse_object, read_int, read_object, read_str, read_str_map
from ligerdiag.errors import ArtifactError, InputError, read_message
from ligerdiag.sweep.grid import FORMAT
from ligerdiag.untrusted_files import MAXIMUM_JSON_BYTES, read_untrusted


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """The result of one task, as it is stored."""

    key: str
    task: Mapping[str, str]
    """The description of the task, see `describe_task`."""
    dependencies: Mapping[str, str]
    """Maps the path of each file that the case imports, relative to the root of the case's source, to the file's sha256."""
    report: Json
    """The report of `check --format json`, with one case."""
    data: bytes = b""
    """The whole report (`pack_record`), from which the page of the case is made; empty without a page."""


class ResultStore:
    """The store of a sweep's results, in one folder or at one URL."""

    def __init__(self, place: str) -> None:
        """place: a folder, which is created, or a URL. Raises InputError, as each method does, if it cannot be reached."""
        core: Any = import_module("fsspec.core")
        self._place = place
        with self._reach("open"):
            self._files, self._root = core.url_to_fs(place)
            self._files.makedirs(self._root, exist_ok=True)
        self._is_folder = "file" in (self._files.protocol, *self._files.protocol)

    def list_keys(self) -> frozenset[str]:
        """Returns the keys of all files in the store. A file may be an incomplete result."""
        paths: list[Any] = []
        with self._reach("list"):
            self._files.invalidate_cache()
            try:
                paths = self._files.ls(self._root, detail=False)
            except FileNotFoundError:  # a bucket has no folders, and nothing is there yet
                return frozenset()
        names = [str(path).rpartition("/")[2] for path in paths]
        return frozenset(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def find(self, key: str) -> StoredResult | None:
        """Returns the stored result with a key. Returns None if the store has no file with this key, or if the file is not a
        complete result.
        """
        path = self._locate(key)
        try:
            with self._reach("read"):
                text = self._read(path)
            fields = parse_object(text)
            if len(text) > MAXIMUM_JSON_BYTES or read_int(fields, "format") != FORMAT or read_str(fields, "key") != key:
                return None
            return StoredResult(
                key=key,
                task=read_str_map(fields, "task"),
                dependencies=read_str_map(fields, "dependencies"),
                report=read_object(fields, "report"),
                data=b64decode(read_str(fields, "data"), validate=True),
            )
        except (OSError, ValueError, FieldError):  # each of these errors concerns this file alone
            return None

    def _read(self, path: str) -> bytes:
        """Returns the bytes of a file. In a folder, raises OSError unless it is a regular file of at most the allowed size;
        at a URL, reads at most one byte more than the allowed size.
        """
        if self._is_folder:
            try:
                return read_untrusted(Path(path), MAXIMUM_JSON_BYTES)
            except ArtifactError as error:
                raise OSError(str(error)) from error
        with self._files.open(path, "rb") as file:
            data: bytes = file.read(MAXIMUM_JSON_BYTES + 1)
        return data

    def keep(self, result: StoredResult) -> None:
        """Writes the result into the store."""
        fields = {
            "format": FORMAT,
            "key": result.key,
            "task": dict(result.task),
            "dependencies": dict(result.dependencies),
            "report": result.report,
            "data": b64encode(result.data).decode(),
        }
        temporary = f"{self._root}/.{result.key}.{uuid.uuid4().hex}"
        with self._reach("write"):
            try:
                self._files.pipe_file(temporary, (json.dumps(fields) + "\n").encode())
                self._files.mv(temporary, self._locate(result.key))
            except BaseException:
                with suppress(Exception):
                    self._files.rm_file(temporary)
                raise

    @contextmanager
    def _reach(self, what: str) -> Generator[None]:
        """Turns errors of the store inside its block into InputError, whatever the kind of store. what: the verb for the
        message; with `read`, errors that concern a single file pass unchanged.
        """
        try:
            yield
        except Exception as error:
            if what == "read" and isinstance(error, OSError | ValueError):
                raise
            said = read_message(error)
            advice = (
                "install it, on every worker, too"
                if isinstance(error, ImportError)
                else "check the address, that this machine and every worker can reach it, and that the credentials, or the"
                " folder's owner, allow access; then run the same command again to continue"
            )
            raise InputError(f"cannot {what} the store `{self._place}`: {said}: {advice}") from error

    def _locate(self, key: str) -> str:
        return f"{self._root}/{key}.json"


def resolve_place(place: str, folder: Path) -> str:
    """Returns the location of a store in a form that every worker can use: a URL unchanged, a path as an absolute path.
    Workers may have a working directory of their own.
    """
    return place if "://" in place or "::" in place else str((folder / place).absolute())
