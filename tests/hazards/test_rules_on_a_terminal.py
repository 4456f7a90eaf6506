"""The whole report of each rule's bad examples on a terminal: one text file a rule, in `on_a_terminal/`.

`UPDATE_SNAPSHOTS=1 pytest tests/hazards/test_rules_on_a_terminal.py` rewrites the files; read the difference before you
commit it. Paths of temporary folders, seconds and figures of a replay are left out because they differ between
machines.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.rules.registry import RULES
from ligerdiag.rules.rule import DecidedBy, Rule
from tests.hazards.conftest import Judge

SNAPSHOTS = Path(__file__).with_name("on_a_terminal")
UPDATE = "UPDATE_SNAPSHOTS"
SHOWN = [rule for rule in RULES if rule.decided_by is not DecidedBy.DEVICE]
"""The example of any other rule has no finding without a GPU."""

_FOLDER = re.compile(r"/[^\s`]*/example(_\d+)?\.py")
_FIGURE = re.compile(r"(?<![\w.%])(?<!jax-triton )\d+(\.\d+(e[+-]\d+)?|e[+-]\d+)\b(?!\.)")


def render_example(case: CaseReport) -> str:
    """Returns the report of one example as `ligerdiag check example.py` prints it to a file."""
    shown = replace(case, seconds=0.0, cached=False)
    text = render_terminal(CheckReport(cases=(shown,), targets=(case.target,), toolchain=case.toolchain))
    return _FIGURE.sub("#", _FOLDER.sub("example.py", text))


def render_rule(rule: Rule, judge: Judge) -> str:
    """Returns the reports of the rule's bad examples in sequence, each after the example's description."""
    return "\n".join(f"# {example.about}\n\n{render_example(judge(example))}" for example in rule.bad)


@pytest.mark.parametrize("rule", SHOWN, ids=lambda rule: rule.id)
def test_a_terminal_shows_the_bad_examples_of_a_rule_as_recorded(rule: Rule, judge: Judge) -> None:
    snapshot = SNAPSHOTS / f"{rule.id}-{rule.name}.txt"
    shown = render_rule(rule, judge)
    if os.environ.get(UPDATE):
        SNAPSHOTS.mkdir(exist_ok=True)
        snapshot.write_text(shown, encoding="utf-8")
    assert shown == snapshot.read_text(encoding="utf-8"), f"{UPDATE}=1 writes {snapshot.name} anew"


def test_no_snapshot_belongs_to_a_removed_rule() -> None:
    names = {f"{rule.id}-{rule.name}.txt" for rule in SHOWN}
    assert {snapshot.name for snapshot in SNAPSHOTS.iterdir()} == names
