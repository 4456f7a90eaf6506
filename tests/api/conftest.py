"""Real compiles in the cache of the whole run, which all tests share."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.replay.replay_worker import Bounds
from tests.case_levels import list_case_ids, runs_daily
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
    """Checks what the selectors mean, for an H100 and without a replay unless told otherwise."""

    def run(
        *selectors: str | Path, targets: tuple[str, ...] = ("h100",), cache: Path = cache, replay: bool = False
    ) -> CheckReport:
        words = tuple(str(selector) for selector in selectors)
        bounds = Bounds(memory=2 << 30)  # the large rows of the linear cross entropy take more: a night's work
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
"""Of a test of all that `table` has: with the cases of the day, and by night with all of them."""


@pytest.fixture(scope="session")
def table(check: Check, request: pytest.FixtureRequest) -> CheckReport:
    """The cases of the day (see tests/case_levels.py), in a run by night all of cases/, replayed where that takes
    seconds."""
    by_day = request.config.option.markexpr == "not nightly"
    return check(*list_selectors(everything=getattr(request, "param", not by_day)), replay=True)


def list_selectors(*, everything: bool) -> tuple[str | Path, ...]:
    """Selectors of the cases of the day, or of all."""
    if everything:
        return (ROOT / "cases",)
    return tuple(f"{ROOT / 'cases'}::{one}" for one in list_case_ids() if runs_daily(one))


@pytest.fixture(scope="session")
def cases(table: CheckReport) -> Mapping[str, CaseReport]:
    """The same by id."""
    return {case.id: case for case in table.cases}


@pytest.fixture(scope="session")
def run_cli(cache: Path) -> RunCli:
    """Runs `ligerdiag` with these words in a process of its own."""

    def run(*words: str | Path, cwd: Path) -> Outcome:
        environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(cache)}
        return run_warm_command([str(word) for word in words], cwd=cwd, environment=environment)

    return run
