"""Programs of the analysis tests, compiled again without tags, as in a user's XLA dump."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.inspection.compilation import analyse_compilation
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.model.report import Inspection
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.analysis.compiled import PROGRAMS, Compiler, compiler

__all__ = ["compiler"]

ROOT = Path(__file__).parents[2]
FILES = ("straight.py", "loops.py", "calls.py")


@dataclass(frozen=True)
class Pair:
    """A program compiled with tags and without."""

    tagged: Artifact
    untagged: Artifact
    effects: Path

    def load_dump(self) -> tuple[HloModule, Compilation]:
        """Returns what XLA dumps without tags; the program comes separately, because the compilation can lack it."""
        optimized, buffers = load_hlo(self.untagged.optimized)
        program, _ = load_hlo(self.untagged.unoptimized)
        return program, Compilation(
            name=self.untagged.provenance.case_id,
            program=program,
            as_written=False,
            optimized=optimized,
            buffers=buffers,
            output_names=self.untagged.provenance.outputs,
        )

    def inspect(self, compilation: Compilation) -> Inspection:
        return analyse_compilation(compilation, effects_cache=self.effects).inspection


type Pairs = dict[str, Pair]


@pytest.fixture(scope="session")
def pairs(compiler: Compiler, shared_cache: Path) -> Pairs:
    """Returns the pairs by case id."""
    cache = Cache(shared_cache / "untagged")
    with Pool(cache=cache, jobs=2, module="tools.untagged_worker", environment={"PYTHONPATH": str(ROOT)}) as pool:
        cases = discover_cases(list(FILES), pool=pool, directory=PROGRAMS)
        results = list(compile_cases(cases, [load_target("h100")], pool=pool))
    tagged = {case: program for file in FILES for case, program in compiler.compile(file).items()}
    found: Pairs = {}
    for result in results:
        assert result.artifact is not None, result.error
        program = tagged[result.case.id]
        found[result.case.id] = Pair(program.artifact, result.artifact, program.effects)
    return found
