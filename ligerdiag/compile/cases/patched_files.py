"""Imports files of the project with changed texts, which are not on disk, under the names that the files have on disk.

`ligerdiag fix` judges a changed program before it writes anything. The changed module keeps its file name, so that
imports, source lines and `inspect.getsource`, by which Triton reads a kernel, work as in the original.
"""

import importlib.util
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

from ligerdiag.errors import InputError
from ligerdiag.model.jobs import Source


class _TextLoader(SourceFileLoader):
    """Loads a module from a text in place of its file; neither reads nor writes bytecode."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self._text = text

    def get_data(self, path: str) -> bytes:
        return self._text

    def path_stats(self, path: str) -> Mapping[str, float]:
        raise OSError(f"`{path}` is patched, so no bytecode is valid for it")


class PatchedFiles(MetaPathFinder):
    """An import finder that loads the patched files of a source with their changed texts. It leaves all other modules
    to the usual finders.
    """

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}
        self._shown: set[str] = set()
        """Paths, as modules have them, of the files whose lines `linecache` has from a patch."""

    def use(self, source: Source) -> None:
        """Makes imports read the patched texts of this source, and no longer those of an earlier source. Raises
        InputError if a patch cannot be read.
        """
        for file in self._shown:
            linecache.cache.pop(file, None)
        self._shown.clear()
        try:
            self._texts = {file: Path(text).read_bytes() for file, text in source.patches}
        except OSError as error:
            raise InputError(f"cannot read the patch of `{source}`: {error.strerror}") from error
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._texts:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the import spec of a patched module. Returns None for any other module."""
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or not found.origin or os.path.realpath(found.origin) not in self._texts:
            return None
        return self.make_spec(fullname, Path(found.origin), found.submodule_search_locations)

    def make_spec(self, name: str, file: Path, locations: list[str] | None = None) -> ModuleSpec | None:
        """Returns an import spec that loads the module from `file`, or from the patched text that replaces the file's.

        locations: the folders of a package; None for a module.
        """
        text = self._texts.get(os.path.realpath(file))
        if text is not None:
            lines = text.decode("utf-8", "replace").splitlines(keepends=True)
            linecache.cache[str(file)] = (len(text), None, lines, str(file))  # None: not compared with the file on disk
            self._shown.add(str(file))
        loader = None if text is None else _TextLoader(name, str(file), text)
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=locations)


PATCHED_FILES = PatchedFiles()
"""The finder of this process, of which there is only one, since Python's list of finders belongs to the whole process."""
