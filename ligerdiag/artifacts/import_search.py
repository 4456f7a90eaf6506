"""Says where Python would find a module or an installed distribution. The answer is a text that changes when the place
does.

Folders are searched as Python's `FileFinder` searches them: a package before a module, an extension before a source, an
earlier folder before a later one. Nothing is imported, so a process with another `sys.path` gets the same text.
"""

import os
from collections.abc import Sequence
from hashlib import sha256
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.metadata import DistributionFinder, MetadataPathFinder
from pathlib import Path

_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)
_CANDIDATES = (*(f"/__init__{suffix}" for suffix in _SUFFIXES), *_SUFFIXES)
_METADATA = (".dist-info", ".egg-info", ".egg-link")


def search_module(name: str, entries: Sequence[str]) -> tuple[str, int]:
    """Returns a text that says in which entry of a path Python finds the module. Also returns how many entries decide
    this. The text is empty if the module is in no entry.

    name: the part of the module's name after the last dot. entries: absolute paths of folders and zip files.
    """
    places: list[str] = []
    for number, entry in enumerate(entries):
        place = os.path.join(entry, name)
        is_folder = os.path.isdir(place)
        for candidate in _CANDIDATES if is_folder else _SUFFIXES:
            if os.path.isfile(f"{place}{candidate}"):
                return " ".join((*places, f"{number}{candidate}")), number + 1
        if is_folder:
            places.append(f"{number}/")  # a part of a namespace package, if no later folder has the module
        elif os.path.isfile(entry):
            places.append(f"{number}={_digest_archive(Path(entry))}")
    return " ".join(places), len(entries)


def search_distribution(name: str, entries: Sequence[str]) -> str:
    """Returns the version of the first distribution of that name in the entries of a path. Returns an empty string if
    there is none. For an empty name, returns the names of all metadata in the entries.
    """
    if name:
        context = DistributionFinder.Context(name=name, path=list(entries))
        found = next(iter(MetadataPathFinder.find_distributions(context)), None)
        return "" if found is None else f"version {found.metadata['Version']}"
    return "\n".join(sorted(one for entry in entries for one in _list_names(entry) if one.endswith(_METADATA)))


def _list_names(entry: str) -> list[str]:
    try:
        return os.listdir(entry)
    except OSError:
        return []


def _digest_archive(file: Path) -> str:
    with file.open("rb") as archive:
        digest = sha256()
        while block := archive.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
