"""One runner for all tests, so that they share its compiles."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.bisect.trials import TrialRunner
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import Progress
from ligerdiag.report.comparisons import Axis
from ligerdiag.run_options import BisectOptions
from ligerdiag.toolchains.gpu_targets import Target, load_target

type Load = Callable[[str], CaseSpec]


def ignore(progress: Progress) -> None:
    del progress


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def runner(cache: Cache) -> Iterator[TrialRunner]:
    with TrialRunner(cache=cache, report_progress=ignore) as runner:
        yield runner


@pytest.fixture(scope="session")
def load(runner: TrialRunner, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Returns the case of a file with this text."""
    folder = tmp_path_factory.mktemp("files")

    def write_and_discover(text: str) -> CaseSpec:
        path: Path = folder / f"case_{abs(hash(text))}.py"
        path.write_text(text)
        (case,) = runner.discover([str(path)])
        return case

    return write_and_discover


@pytest.fixture(scope="session")
def h100() -> Target:
    return load_target("h100")


def make_options(axis: Axis, **changes: object) -> BisectOptions:
    fields: dict[str, object] = {"selectors": (), "axis": axis, "replay": False, **changes}
    return BisectOptions(**fields)  # type: ignore[arg-type]
