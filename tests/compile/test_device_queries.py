"""A program that asks for its devices takes the target's branch, never the CPU's; programs with calls into Python or a
library compile without the called code.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, Status
from tests.compile.programs import asking, callbacks

PROGRAMS = Path(asking.__file__)

type Judge = Callable[[str], dict[str, CaseReport]]


@pytest.fixture(scope="module")
def judge(shared_cache: Path) -> Judge:
    """Judges all programs for one target; returns the reports by the question each program asks."""

    def run(target: str) -> dict[str, CaseReport]:
        options = api.CheckOptions(
            selectors=(str(PROGRAMS),), targets=(target,), cache_directory=shared_cache, replay=False
        )
        return {case.id.partition("[")[2].rstrip("]"): case for case in api.check(options).cases}

    return run


@pytest.mark.parametrize("asks", list(asking.ASKS))
def test_the_kernel_in_the_gpu_s_branch_is_judged(asks: str, judge: Judge) -> None:
    case = judge("h100")[asks]
    assert not case.error
    assert case.coverage.hidden_writes == 1
    assert case.outputs == {"back": Verdict.STALE, "total": Verdict.FRESH}


def test_each_target_gets_its_own_answers_even_at_import(judge: Judge) -> None:
    for target in ("a100", "h100"):  # in one cache: neither target gets the other's answers
        found = judge(target)
        told = {name for name, case in found.items() if case.coverage.hidden_writes}
        own = {"kind", "inner_devices", "mesh", "kind_at_import", "capability_at_import"}
        assert told == (set(asking.ASKS) - own if target == "a100" else set(asking.ASKS))


def test_both_targets_in_one_run(shared_cache: Path) -> None:
    options = api.CheckOptions(
        selectors=(f"{PROGRAMS}::asking[kind_at_import]",),
        targets=("a100", "h100"),
        cache_directory=shared_cache,
        replay=False,
        refresh=True,
    )
    found = {case.target: case.coverage.hidden_writes for case in api.check(options).cases}
    assert found == {"a100": 0, "h100": 1}


@pytest.fixture(scope="module")
def called(shared_cache: Path) -> dict[str, CaseReport]:
    options = api.CheckOptions(
        selectors=(callbacks.__file__,), targets=("h100",), cache_directory=shared_cache, replay=False
    )
    return {case.id: case for case in api.check(options).cases}


@pytest.mark.parametrize("name", [function.__name__ for function in callbacks.READ])
def test_a_callback_that_gets_copies_makes_nothing_unknown(name: str, called: dict[str, CaseReport]) -> None:
    case = called[name]
    assert (case.error, case.status) == ("", Status.NOTHING)
    assert case.coverage.kernels
    assert set(case.outputs.values()) == {Verdict.FRESH}


@pytest.mark.parametrize("name", [function.__name__ for function in callbacks.UNKNOWN])
def test_a_call_that_gets_the_buffers_makes_dependent_outputs_unknown(name: str, called: dict[str, CaseReport]) -> None:
    case = called[name]
    assert (case.error, case.status) == ("", Status.INCONCLUSIVE)
    assert set(case.outputs.values()) == {Verdict.UNKNOWN}
    assert [finding.rule for finding in case.findings] == ["LD014"]


def test_values_passed_to_ordered_callbacks_have_a_verdict(called: dict[str, CaseReport]) -> None:
    case = called["shown_early"]
    assert case.outputs == {"ordered effects": Verdict.STALE, "total": Verdict.FRESH}
