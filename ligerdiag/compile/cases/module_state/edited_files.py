"""Notices, in the caller's process, that the file of a module has changed since the module was imported.

A worker imports the new file. What the caller's process has not changed is then to be as in the new file, so the state
of each module is remembered when it is recorded for the first time. If the file had changed before, nobody knows which
of the two differs from what was imported: a worker keeps the file's values and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from ligerdiag.compile.cases.module_state.state_records import NodeKind, StateNode


@dataclass(slots=True)
class _FirstState:
    module: ModuleType
    file: str
    """sha256 of the file."""
    values: dict[str, str]
    """The digests of the values by name."""
    was_edited: bool
    """Whether the file had changed before."""


_first: dict[str, _FirstState] = {}


def find_unchanged(module: ModuleType, digests: Mapping[str, str]) -> frozenset[str] | None:
    """Returns the names of globals that still have their values from before the module's file changed. Returns None if
    the file has not changed.

    digests: the digests of the module's values now (`digest_node`), by name.
    """
    file = _digest_file(module)
    first = _first.get(module.__name__)
    if first is None or first.module is not module:
        _first[module.__name__] = _FirstState(module, file, dict(digests), _was_edited(module))
        return None
    if first.file == file:
        first.values = {**digests, **first.values}
        return None
    return frozenset(name for name, digest in digests.items() if first.values.get(name, digest) == digest)


def was_edited_before(module: ModuleType) -> bool:
    """Returns whether the module's file had already changed when `find_unchanged` was first called for the module."""
    first = _first.get(module.__name__)
    return first is not None and first.was_edited


def _was_edited(module: ModuleType) -> bool:
    """Returns whether the file is newer than the bytecode that Python kept when the module was last imported."""
    kept, file = getattr(module, "__cached__", None), module.__file__
    if not isinstance(kept, str) or file is None:
        return False
    try:
        with Path(kept).open("rb") as stream:
            header = stream.read(16)
        status = Path(file).stat()
    except OSError:
        return False
    flags, seconds, size = (int.from_bytes(header[start : start + 4], "little") for start in (4, 8, 12))
    return len(header) == 16 and not flags and (seconds, size) != (int(status.st_mtime) & 0xFFFFFFFF, status.st_size)


def digest_node(nodes: list[StateNode], number: int) -> str:
    """Returns a sha256 of the content of a node and of all its parts."""
    places: dict[int, int] = {}
    digest = sha256()

    def add(one: int) -> None:
        if one in places:
            digest.update(f"@{places[one]}".encode())
            return
        places[one] = len(places)
        node = nodes[one]
        own = node.pickled if node.kind not in (NodeKind.FUNCTION, NodeKind.WRAPPED, NodeKind.INSTANCE) else b""
        digest.update(f"{node.kind} {node.data!r} {len(node.parts)} {[name for name, _ in node.named]}".encode())
        digest.update(own)
        for part in (*node.parts, *(part for _, part in node.named)):
            add(part)

    add(number)
    return digest.hexdigest()


def _digest_file(module: ModuleType) -> str:
    try:
        return sha256(Path(module.__file__ or "").read_bytes()).hexdigest()
    except OSError:
        return ""
