"""The file that carries a live function to a worker: a line of JSON, then three pickles: its
arguments, its case, and the classes that have to be made pytree nodes.

1. It lies below the cache, under the sha256 of its content, and is written as a whole or not at all.
2. A reader takes only what has the sha256 of its name: it is the file that this user's process wrote, and no other.
3. Everything that has to stand before anything is unpickled is in the line: where modules are looked for, above all.
"""

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.compile.fields import FieldError, parse_object, read_ints, read_object, read_str, read_strs
from ligerdiag.errors import InputError

FOLDER = "functions"
"""Below the cache's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The parts of the caller's process that a worker needs, too."""

    python: str
    """Such as `3.12`: a function's code is that of one version."""
    path: tuple[str, ...]
    """Absolute folders where modules are looked for, after those of the worker."""
    files: tuple[str, ...]
    """Absolute paths of the files that define what is pickled by value."""
    settings: Mapping[str, object]
    """Options of `jax.config` that can change what a function computes."""
    donated: tuple[int, ...]
    """Positions of the arguments that the function donates."""


def write_function_file(root: Path, surroundings: Surroundings, pickled: bytes) -> Path:
    """Writes the file below the cache `root` and returns its path; InputError when the disk says no."""
    content = json.dumps(asdict(surroundings), sort_keys=True).encode() + b"\n" + pickled
    folder = root / FOLDER
    path = folder / f"{sha256(content).hexdigest()}.pickle"
    temporary = folder / f".tmp-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.is_file() or path.stat().st_size != len(content):
            temporary.write_bytes(content)
            os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"expected to write `{path}` but: {error.strerror or error}") from error
    return path


def read_function_file(path: Path) -> tuple[Surroundings, bytes]:
    """Reads a function file; raises InputError when it is gone or is another one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"expected to read `{path}` but: {error.strerror or error}") from error
    if sha256(content).hexdigest() != path.stem:
        raise InputError(f"`{path}` is not what was written there: its content has another sha256")
    line, _, pickled = content.partition(b"\n")
    try:
        fields = parse_object(line)
        return Surroundings(
            python=read_str(fields, "python"),
            path=read_strs(fields, "path"),
            files=read_strs(fields, "files"),
            settings=read_object(fields, "settings"),
            donated=read_ints(fields, "donated"),
        ), pickled
    except FieldError as error:
        raise InputError(f"`{path}`: {error}") from error
