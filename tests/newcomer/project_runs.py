"""Runs `project/` as its author does, with any interpreter, and compares the output with `answers`."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.newcomer.answers import NEWER, OLDER, PROGRAMS, REMEDY, UNREADABLE, Answer, Program
from tools.running import Outcome, run_process
from tools.warm_commands import run_warm_command

PROJECT = Path(__file__).parent / "project"
SELECTED = {"cases_dp.py": "cases_dp.py::dp-*", "cases_deep.py": "cases_deep.py::deep4"}
"""Files that are checked in part: the other cases repeat those of cases_dp2.py, or have too many layers for every day.
"""
MISSED = {"stale", "latent"}
SEEN = {"clean", "nothing to check", "as expected"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A copy of the project, and the Python and cache to run it with."""

    python: Path
    folder: Path
    cache: Path

    def run(self, *words: str | Path, folder: str = ".") -> Outcome:
        """Runs Python with these arguments in the project."""
        environment = os.environ | {
            "LIGERDIAG_CACHE_DIR": str(self.cache),
            "PYTHONPATH": str(self.folder / "src"),
            "COLUMNS": "150",
            "PYTEST_ADDOPTS": "",
        }
        cwd = self.folder / folder
        if self.python == Path(sys.executable) and words[:2] == ("-m", "ligerdiag"):
            return run_warm_command([str(word) for word in words[2:]], cwd=cwd, environment=environment)
        return run_process([str(self.python), *map(str, words)], cwd=cwd, environment=environment, timeout=1200)

    def check(self, *words: str) -> Outcome:
        """Runs `ligerdiag check`, without a replay."""
        return self.run("-m", "ligerdiag", "check", *words, "--no-replay")


def copy_project(python: Path, folder: Path, cache: Path) -> Surroundings:
    """Copies the project into the folder."""
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return Surroundings(python=python, folder=folder, cache=cache)


def check_programs(surroundings: Surroundings, programs: Sequence[Program]) -> Mapping[Program, Any]:
    """Returns the programs' JSON reports, from one run."""
    selectors: list[str] = []
    for file in dict.fromkeys(program.file for program in programs):
        chosen = [program.selector for program in programs if program.file == file]
        is_whole = len(chosen) == sum(program.file == file for program in PROGRAMS)
        selectors += [SELECTED.get(file, file)] if is_whole else chosen
    outcome = surroundings.check(*selectors, "--format", "json")
    assert outcome.out, outcome.err
    left = json.loads(outcome.out)["cases"]
    reports: dict[Program, Any] = {}
    for (
        program
    ) in programs:  # reports come in the order of the selectors, so the first one with this id belongs to this program
        report = next((one for one in left if one["id"] == program.case), None)
        assert report is not None, f"{program.selector} is not in the report"
        left.remove(report)
        reports[program] = report
    assert [report["id"] for report in left] == []
    return reports


def find_differences(answer: Answer, report: Mapping[str, Any]) -> list[str]:
    """Returns one line for each way in which the report differs from the answer."""
    outputs: Mapping[str, str] = report["outputs"]
    if answer.refused:
        said = report["error"]
        remedy = REMEDY if answer.refused in {OLDER, NEWER} else ""
        is_said = answer.refused in said and remedy in said and report["status"] == "could not analyse"
        return [] if is_said else [f"says {said!r}"]
    if report["error"]:
        return [f"is an error: {report['error']}"]
    if answer.right is None:
        wrong = [f"{name} is {verdict}" for name, verdict in outputs.items() if verdict != "fresh"]
        found = [f"finds {one['rule']}" for one in report["findings"]]
        return [*wrong, *found, *([] if report["status"] in SEEN else [f"is {report['status']}"])]
    fresh = {name for name, verdict in outputs.items() if verdict == "fresh"}
    differences = [f"{name} is fresh" for name in sorted(fresh - answer.right)]
    differences += [f"{name} is {outputs.get(name, 'missing')}" for name in sorted(answer.right - fresh)]
    odd = {name: verdict for name, verdict in outputs.items() if verdict not in {"fresh", *MISSED}}
    differences += [f"{name} is {verdict}" for name, verdict in odd.items()]
    rules = {rule for one in report["findings"] for rule in (one["rule"], *one["rules"])}
    if "LD006" not in rules or "LD007" in rules:
        differences.append(f"finds {sorted(rules)}")
    return differences


def find_refusals(surroundings: Surroundings) -> list[str]:
    """Returns one line for each file, invalid or not compiling, that gets another message than expected."""
    differences: list[str] = []
    for file, said in UNREADABLE.items():
        outcome = surroundings.check(file)
        if (outcome.code, outcome.out) != (2, "") or said not in outcome.err.splitlines()[-1]:
            differences.append(f"{file}: {outcome}")
    broken = surroundings.check("c8.py")
    if broken.code != 2 or "c8.py:3: NameError" not in broken.out:
        differences.append(f"c8.py: {broken}")
    refused = surroundings.check("trc.py")
    shown = [line.removeprefix("   | ") for line in refused.out.splitlines() if line.startswith("   | ")]
    caret = f"{' ' * 42}^"
    drawn = ["    tl.store(y_ptr + tl.arange(0, N), x + undefined_thing)", caret]
    if refused.code != 3 or len(shown) != 6 or not shown[0].endswith("trc.py:6:43") or shown[3:5] != drawn:
        differences.append(f"trc.py: {refused}")
    return differences
