"""Real compiles, in the cache that all tests of a run share."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.replay.replay_worker import Bounds
from tests.case_levels import list_due
from tools.running import Outcome
from tools.warm_commands import run_warm_command

ROOT = Path(__file__).parents[2]

type Check = Callable[..., CheckReport]
type RunCli = Callable[..., Outcome]


@pytest.fixture(scope="session")
def cache(shared_cache: Path) -> Path:
    return shared_cache


@pytest.fixture(scope="session")
def check(cache: Path) -> Check:
    """Checks the selected cases, by default for an H100 and without a replay."""

    def run(
        *selectors: str | Path, targets: tuple[str, ...] = ("h100",), cache: Path = cache, replay: bool = False
    ) -> CheckReport:
        words = tuple(str(selector) for selector in selectors)
        bounds = Bounds(
            memory=2 << 30
        )  # the large rows of the linear cross entropy take longer: only the nightly run replays them
        return api.check(
            api.CheckOptions(selectors=words, targets=targets, cache_directory=cache, replay=replay, bounds=bounds)
        )

    return run


EACH_LEVEL = pytest.mark.parametrize(
    "table",
    [False, pytest.param(True, marks=pytest.mark.nightly)],
    ids=["day", "night"],
    indirect=True,
    scope="session",
)
"""Runs a test of `table` on the daily cases and, in the nightly run, on all."""


@pytest.fixture(scope="session")
def table(check: Check, request: pytest.FixtureRequest) -> CheckReport:
    """The daily cases (see tests/case_levels.py) or, in the nightly run, all of cases/; replayed if that takes seconds."""
    by_day = request.config.option.markexpr == "not nightly"
    return check(*list_selectors(everything=getattr(request, "param", not by_day)), replay=True)


def list_selectors(*, everything: bool) -> tuple[str | Path, ...]:
    """Returns selectors of the daily cases, or of all."""
    if everything:
        return (ROOT / "cases",)
    return tuple(f"{ROOT / 'cases'}::{one}" for one in list_due())


@pytest.fixture(scope="session")
def cases(table: CheckReport) -> Mapping[str, CaseReport]:
    """The reports of `table` by case id."""
    return {case.id: case for case in table.cases}


@pytest.fixture(scope="session")
def run_cli(cache: Path) -> RunCli:
    """Runs `ligerdiag` with these arguments in its own process."""

    def run(*words: str | Path, cwd: Path) -> Outcome:
        environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(cache)}
        return run_warm_command([str(word) for word in words], cwd=cwd, environment=environment)

    return run
