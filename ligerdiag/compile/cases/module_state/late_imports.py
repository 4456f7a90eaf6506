"""Gives each of the user's modules the caller's state once a worker has imported it.

An import of a module may import others; all of them get the state when the outermost import has ended. So a module that
reads another one's globals while it is imported sees them as they are in the file, as it did in the caller's process,
where nothing could change before it was imported.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ligerdiag.compile.cases.device_queries import watch_questions
from ligerdiag.compile.cases.module_state.device_answers import compute_bases, list_remembered
from ligerdiag.compile.cases.module_state.state_merge import StateMerger
from ligerdiag.compile.cases.module_state.state_records import NodeKind, StateRecord
from ligerdiag.errors import is_project_file


class LateImports(MetaPathFinder):
    """An import finder that notices when a module of the user's is executed. It finds a module through all other
    finders.
    """

    def __init__(self) -> None:
        self._record: StateRecord | None = None
        self._merger: StateMerger | None = None
        self._waiting: list[tuple[ModuleType, list[int]]] = []
        self._depth = 0
        self._bases: dict[str, dict[str, Any]] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns a line for each part of the caller's state that differs in this process and could not be transferred."""
        return () if self._merger is None else tuple(self._merger.notes)

    def use(self, record: StateRecord | None) -> None:
        """Makes all modules that are imported from now on get the state of this record. None ends that."""
        self._record, self._merger = record, None if record is None else StateMerger(record)
        self._waiting, self._bases = [], {}
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if record is not None:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec that one of the other import finders has for the module. Returns None if none of them has
        one.
        """
        for finder in [one for one in sys.meta_path if one is not self]:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is None:
                continue
            loader: Any = spec.loader
            if (
                spec.origin
                and os.path.isabs(spec.origin)
                and is_project_file(spec.origin)
                and hasattr(loader, "exec_module")
            ):
                self._watch(loader)
            return spec
        return None

    def _watch(self, loader: Any) -> None:
        execute: Callable[[ModuleType], None] = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self._depth += 1
            try:
                with watch_questions(module.__name__) as lines:
                    execute(module)
                self._waiting.append((module, lines))
            finally:
                self._depth -= 1
            if self._depth == 0:
                self._merge()

        loader.exec_module = exec_module  # of this loader alone, which loads one module

    def _merge(self) -> None:
        while self._waiting and self._merger is not None:
            module, lines = self._waiting.pop(0)
            self._merge_one(module, lines, self._merger)

    def _merge_one(self, module: ModuleType, lines: list[int], merger: StateMerger) -> None:
        record = self._record
        wanted = {} if record is None else record.modules.get(module.__name__, {})
        kept: set[str] = set()
        if record is not None and record.edited.get(module.__name__) is False:
            merger.note_differences(module)
            return
        if record is None or not record.backend:  # the caller's JAX has answered no question about devices
            merger.merge_module(module, {})
            return
        bases, unknown = compute_bases(module, lines, self._bases)
        for name in list_remembered(module) & wanted.keys():
            if not getattr(module, name, None) and record.nodes[wanted[name]].kind is NodeKind.PLAIN:
                kept.add(name)
        if record.backend == "gpu":  # other devices than this process can ask: nobody knows what they answered
            unknown |= bases.keys()
        for name in unknown & wanted.keys():
            kept.add(name)
            if not merger.is_same(wanted[name], getattr(module, name, None)):
                merger.note(
                    f"{module.__name__}.{name}", "it depends on the devices, and was made for those of the target"
                )
        if bases:
            self._bases[module.__name__] = bases
        merger.merge_module(module, bases, kept)


LATE_IMPORTS = LateImports()
"""The finder of this process, of which there is only one, since Python's list of finders belongs to the whole process."""
