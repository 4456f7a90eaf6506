"""One pool and one cache for all tests, because starting a worker takes seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.toolchains.gpu_targets import Target, load_target
from ligerdiag.workers.pool import Pool

PROGRAMS = Path(__file__).parent / "programs"

type Compile = Callable[..., dict[str, CompileResult]]


@pytest.fixture(scope="session")
def h100() -> Target:
    return load_target("h100")


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with Pool(cache=Cache(tmp_path_factory.mktemp("cache")), jobs=2) as opened:
        yield opened


@pytest.fixture(scope="session")
def compile_selected(pool: Pool, h100: Target) -> Compile:
    """Compiles the selected cases for an H100, in the shared pool, and returns the results by id."""

    def compile_it(selector: str, **keywords: object) -> dict[str, CompileResult]:
        cases = discover_cases([selector], pool=pool, directory=PROGRAMS)
        return {result.case.id: result for result in compile_cases(cases, [h100], pool=pool, **keywords)}  # type: ignore[arg-type]

    return compile_it


@pytest.fixture(scope="session")
def doubling(compile_selected: Compile) -> dict[str, CompileResult]:
    return compile_selected("doubling.py")
