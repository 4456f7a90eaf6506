"""The examples in `ligerdiag explain` and in the pages get the same verdicts with a plain installation.

Those of a run are checked at once as files of a reader, together with the reports' reproducers, which are printed too.
Every day that is the first bad example of each rule that the schedule decides, because the versions differ in the
schedules that they lead to. The nightly run has the others: the same kernels, mostly with a cure, and the rules that
numbers, a baseline or a budget decide, which test_examples.py checks every day with the pinned versions.
"""

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import DecidedBy, Example, Rule
from tests.docs.test_written_reports import REPRODUCERS
from tests.hazards.conftest import Judge
from tools.documents import ROOT

EXAMPLES = [
    pytest.param(
        rule,
        example,
        id=f"{rule.id}-{kind}-{number}",
        marks=() if kind == "bad" and number == 0 and rule.decided_by is DecidedBy.SCHEDULE else pytest.mark.nightly,
    )
    for rule in RULES
    for kind, examples in (("bad", rule.bad), ("good", rule.good))
    for number, example in enumerate(examples)
]
REPORTS = {
    path.stem: path
    for path in sorted((ROOT / "docs" / "reports").glob("*.py"))
    if "CASE" in path.read_text(encoding="utf-8")
}
DIFFERENT: Mapping[str, tuple[Mapping[str, str], set[str], str]] = {}
"""Case name to its verdicts and rules with the newest versions, and the reason for the difference; currently empty."""

NEEDS_MORE = frozenset({"LD015", "LD033", "LD034"})
"""Rules that take a baseline or budgets, without which the newest versions are tried."""

type Reports = Mapping[str, Any]


@pytest.fixture(scope="module")
def newest(request: pytest.FixtureRequest, plain_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Returns the results of a plain installation for the examples that this run asks about, and for the reports."""
    asked = {test.name for test in request.session.items if test.path == request.path}
    files: dict[str, dict[str, str]] = defaultdict(dict, {"h100": {}})  # the target of the reports
    for parameters in EXAMPLES:
        _, example = parameters.values
        if f"{test_an_example_gets_the_verdicts_and_rules_of_the_pinned_versions.__name__}[{parameters.id}]" in asked:
            files[example.target].setdefault(example.code, f"{parameters.id.replace('-', '_').lower()}.py")
    cache, found = tmp_path_factory.mktemp("cache"), dict[str, Any]()
    for target, codes in files.items():
        folder = tmp_path_factory.mktemp(target)
        for code, name in codes.items():
            (folder / name).write_text(code, encoding="utf-8")
        reports = [str(path) for path in REPORTS.values()] if target == "h100" else []
        cases = check([str(folder / name) for name in codes.values()] + reports, target, plain_python, cache)
        found |= dict(zip([(target, code) for code in codes], cases, strict=False))
        found |= {case["id"]: case for case in cases[len(codes) :]}
    return found


def check(selectors: list[str], target: str, python: Path, cache: Path) -> list[Any]:
    words = ["check", *selectors, "--target", target, "--cache-dir", str(cache), "--format", "json"]
    done = subprocess.run(
        [python.with_name("ligerdiag"), *words], cwd=cache, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["cases"]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_gets_the_verdicts_and_rules_of_the_pinned_versions(
    rule: Rule, example: Example, newest: Reports, judge: Judge
) -> None:
    report, pinned = newest[example.target, example.code], judge(example)
    assert report["error"] == ""
    assert report["disagreements"] == []
    outputs, rules, _ = DIFFERENT.get(
        pinned.id,
        (
            {name: verdict.value for name, verdict in pinned.outputs.items()},
            {finding.rule for finding in pinned.findings}
            - {"LD015", "LD033", "LD034"},  # which take a baseline or budgets
            "",
        ),
    )
    assert report["outputs"] == outputs
    assert {one for finding in report["findings"] for one in finding["rules"]} == rules
    assert pinned.replay is not None
    assert report["replay"]["state"] == pinned.replay.state.value


@pytest.mark.parametrize("name", REPRODUCERS)
def test_a_report_s_reproducer_confirms_the_report(name: str, newest: Reports) -> None:
    assert newest[name]["error"] == ""
    verdicts, rules = REPRODUCERS[name]
    assert newest[name]["outputs"] == {output: verdict.value for output, verdict in verdicts.items()}
    assert {one for finding in newest[name]["findings"] for one in finding["rules"]} == rules


def test_the_examples_that_differ_exist() -> None:
    codes = [example.code for rule in RULES for example in (*rule.bad, *rule.good)]
    assert all(any(f'name="{name}"' in code for code in codes) for name in DIFFERENT)
