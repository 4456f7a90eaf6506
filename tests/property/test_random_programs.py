"""Random programs get verdicts that agree with their replay; tests/gpu runs them on a GPU."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import ReplayState, Verdict
from ligerdiag.model.report import CheckReport, Status
from tests.property.random_cases import SEEDS


@pytest.fixture(scope="module")
def report(shared_cache: Path) -> CheckReport:
    cases = Path(__file__).with_name("random_cases.py")
    return api.check(api.CheckOptions(selectors=(str(cases),), targets=("h200",), cache_directory=shared_cache))


def test_every_random_program_gets_a_verdict_for_every_output(report: CheckReport) -> None:
    assert [(case.id, case.error) for case in report.cases if case.status is Status.ERROR] == []
    assert len(report.cases) == len(SEEDS)
    assert all(set(case.outputs) >= {"norm", "total"} for case in report.cases)


def test_a_hidden_write_is_always_reported(report: CheckReport) -> None:
    for case in report.cases:
        writes = [finding for finding in case.findings if finding.rule == "LD006"]
        assert len(writes) == case.coverage.hidden_writes > 0


def test_a_finding_names_each_wrong_output(report: CheckReport) -> None:
    rules = {Verdict.STALE: {"LD001", "LD002"}, Verdict.CLOBBERED: {"LD004"}, Verdict.LATENT: {"LD003"}}
    for case in report.cases:
        for name, verdict in case.outputs.items():
            explained = {finding.rule for finding in case.findings if name in finding.outputs}
            assert verdict is Verdict.FRESH or explained & rules[verdict], (case.id, name, verdict)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_verdict_contradicts_its_replay(seed: int, report: CheckReport) -> None:
    case = next(case for case in report.cases if case.id == f"random[{seed}]")
    assert case.replay is not None
    assert case.replay.state is ReplayState.DONE
    assert [one.message for one in case.disagreements] == []
