"""Every example of every rule, compiled once: a folder of files for each target, one run each."""

from collections import defaultdict
from collections.abc import Callable

import pytest

from ligerdiag import api
from ligerdiag.hazards.registry import RULES
from ligerdiag.hazards.rule import Example
from ligerdiag.report.model import CaseReport, Status

type Judge = Callable[[Example], CaseReport]


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Returns the report of an example, as a user gets it for a file of his own."""
    by_target: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for rule in RULES:
        for example in (*rule.bad, *rule.good):
            by_target[example.target][example.code] = None
    reports: dict[tuple[str, str], CaseReport] = {}
    cache = tmp_path_factory.mktemp("cache")
    for target, codes in by_target.items():
        folder = tmp_path_factory.mktemp(target)
        for number, code in enumerate(codes):
            (folder / f"example_{number:03}.py").write_text(code, encoding="utf-8")
        options = api.CheckOptions(selectors=(str(folder),), targets=(target,), cache_directory=cache)
        cases = api.check(options).cases
        reports |= {(target, code): case for code, case in zip(codes, cases, strict=True)}

    def find(example: Example) -> CaseReport:
        report = reports[example.target, example.code]
        assert report.status is not Status.ERROR, f"{report.error}\n{report.log_tail}"
        return report

    return find
