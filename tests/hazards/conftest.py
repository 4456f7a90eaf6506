"""Every example of every rule, compiled once: one folder of files and one run for each target."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import Example, Rule
from tests.rotation import current_turn, take_turns

type Judge = Callable[[Example], CaseReport]


def check_with_budgets(example: Example, folder: Path, cache: Path) -> CaseReport:
    """Checks the file with the budgets of the example."""
    file = folder / "example.py"
    file.write_text(example.code, encoding="utf-8")
    options = api.CheckOptions(
        selectors=(str(file),), targets=(example.target,), cache_directory=cache, budgets=example.budgets
    )
    (report,) = api.check(options).cases
    return report


def check_against_baseline(example: Example, folder: Path, cache: Path) -> CaseReport:
    """Records a baseline of the old version of the file, and checks the new version against it."""
    file, baseline = folder / "example.py", folder / "baseline.json"
    options = api.CheckOptions(selectors=(str(file),), targets=(example.target,), cache_directory=cache, record=True)
    file.write_text(example.recorded, encoding="utf-8")
    baseline.write_text(api.render_record(api.check(options), options, baseline), encoding="utf-8")
    file.write_text(example.code, encoding="utf-8")
    (report,) = api.check(replace(options, record=False, baseline=baseline)).cases
    return report


def list_good() -> tuple[tuple[Rule, int, Example], ...]:
    """Returns the good examples that have their turn (tests/rotation.py), each with its rule and its number there."""
    good = [(rule, number, example) for rule in RULES for number, example in enumerate(rule.good)]
    return take_turns(good, current_turn())


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Returns the report of an example, as a user gets it for a file."""
    by_target: defaultdict[str, dict[str, None]] = defaultdict(dict)
    recorded: dict[tuple[str, str], Example] = {}
    limited: dict[tuple[str, str], Example] = {}
    for example in (*(one for rule in RULES for one in rule.bad), *(one for _, _, one in list_good())):
        if example.recorded:
            recorded[example.target, example.code] = example
        elif example.budgets.are_set:
            limited[example.target, example.code] = example
        else:
            by_target[example.target][example.code] = None
    reports: dict[tuple[str, str], CaseReport] = {}
    cache = tmp_path_factory.mktemp("cache")
    for key, example in recorded.items():
        reports[key] = check_against_baseline(example, tmp_path_factory.mktemp("recorded"), cache)
    for key, example in limited.items():
        reports[key] = check_with_budgets(example, tmp_path_factory.mktemp("limited"), cache)
    for target, codes in by_target.items():
        folder = tmp_path_factory.mktemp(target)
        for number, code in enumerate(codes):
            (folder / f"example_{number:03}.py").write_text(code, encoding="utf-8")
        options = api.CheckOptions(selectors=(str(folder),), targets=(target,), cache_directory=cache)
        cases = api.check(options).cases
        reports |= {(target, code): case for code, case in zip(codes, cases, strict=True)}

    def find(example: Example) -> CaseReport:
        key = example.target, example.code
        if key not in reports:  # a good example of another turn
            check = check_against_baseline if example.recorded else check_with_budgets
            reports[key] = check(example, tmp_path_factory.mktemp("other"), cache)
        report = reports[key]
        assert report.status is not Status.ERROR, f"{report.error}\n{report.log_tail}"
        return report

    return find
