"""Compiles the programs that the tests of hlo and analysis share: in one pool, each file when a test first asks for it."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import Positions
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Inspection
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Program:
    """A compiled case."""

    artifact: Artifact
    effects: Path

    @cached_property
    def inspection(self) -> Inspection:
        return inspect_artifact(self.artifact, effects_cache=self.effects)

    @property
    def verdicts(self) -> dict[str, str]:
        return {name: verdict.value for name, verdict in self.inspection.outputs.items()}

    def verdict(self, output: str) -> Verdict:
        return self.inspection.outputs[output]

    @cached_property
    def as_written(self) -> HloModule:
        return load_hlo(self.artifact.as_written)[0]

    @cached_property
    def optimized(self) -> HloModule:
        return load_hlo(self.artifact.optimized)[0]

    @cached_property
    def buffers(self) -> BufferAssignment:
        buffers = load_hlo(self.artifact.optimized)[1]
        assert buffers is not None
        return buffers

    @cached_property
    def positions(self) -> Positions:
        return Positions(self.optimized, self.buffers)


class Compiler:
    """Compiles one file of programs at a time for an H100, in one pool."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._root = root
        self._stack = stack
        self._pool: Pool | None = None
        self._files: dict[str, dict[str, Program]] = {}

    def compile(self, file: str) -> dict[str, Program]:
        """Returns the programs of the file by case id."""
        if file not in self._files:
            if self._pool is None:
                self._pool = self._stack.enter_context(Pool(cache=Cache(self._root), jobs=2))
            found: dict[str, Program] = {}
            cases = discover_cases([file], pool=self._pool, directory=PROGRAMS)
            for result in compile_cases(cases, [load_target("h100")], pool=self._pool):
                assert result.artifact is not None, result.error
                found[result.case.id] = Program(result.artifact, self._root / "effects")
            self._files[file] = found
        return self._files[file]


_shared: list[Compiler] = []


@pytest.fixture(scope="session")
def compiler(shared_cache: Path) -> Iterator[Compiler]:
    """Shares one compiler between both folders of tests."""
    if _shared:
        yield _shared[0]
        return
    with ExitStack() as stack:
        _shared.append(Compiler(shared_cache, stack))
        yield _shared[0]
        _shared.clear()
