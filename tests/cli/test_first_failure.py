"""`check -x`, `--last-failed`, `--durations`, `-q` and `-v` on real cases, each run in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.warm_commands import run_warm_command

ROOT = Path(__file__).parents[2]
CASES = """
import jax.numpy as jnp
from ligerdiag import Arg, Case

print("imported")

def right(x):
    print("traced", x.shape)
    return {"y": jnp.sin(x)}

def wrong(x):
    return {"y": x * 2}

def raises(x):
    print("about to raise")
    raise ValueError("no")

def later(x):
    return {"y": x * 3}

A = (Arg(shape=(4,)),)
CASES = (
    Case(name="right", function=right, args=A),
    Case(name="wrong", function=wrong, args=A, expected="hazard"),
    Case(name="raises", function=raises, args=A),
    Case(name="later", function=later, args=A),
)
"""
BESIDE = """
import time
from ligerdiag import Arg, Case

def wrong(x):
    with open("pipe") as pipe:  # until the other case runs beside this one
        pipe.read()
    return {"y": x * 2}

def endless(x):
    with open("pipe", "w") as pipe:
        pipe.write("running")
    time.sleep(3600)
    return {"y": x}

A = (Arg(shape=(4,)),)
CASES = (
    Case(name="wrong", function=wrong, args=A, expected="hazard"),
    Case(name="endless", function=endless, args=A),
    Case(name="third", function=endless, args=A),
)
"""


DONATED = """
import jax.numpy as jnp
from ligerdiag import Arg, Case

def evaluate(w):
    return {"y": jnp.mean(w)}

CASE = Case(name="evaluate", function=evaluate, args=(Arg(shape=(512, 512), donate=True),))
"""


@dataclass(frozen=True)
class Project:
    """A folder with a case file and a record of its last run."""

    folder: Path
    cache: Path

    def check(self, *words: str) -> tuple[int, str, str]:
        """Returns exit code, standard output and standard error of `ligerdiag check mine.py` in the folder."""
        environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(self.cache), "NO_COLOR": "1"}
        command = ["check", *(words or ("mine.py",)), "-j", "1"]
        done = run_warm_command(command, cwd=self.folder, environment=environment)
        return done.code, done.out, done.err

    def read(self, *words: str) -> tuple[int, dict[str, str], dict[str, object]]:
        """Returns exit code, the status of each case, and the whole JSON report."""
        code, out, err = self.check("mine.py", "--format", "json", *words)
        assert out, err
        report = json.loads(out)
        return code, {case["id"]: case["status"] for case in report["cases"]}, report


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(tmp_path: Path, cache: Path) -> Project:
    (tmp_path / "mine.py").write_text(CASES)
    return Project(tmp_path, cache)


def compute_sum(line: str) -> tuple[int, int]:
    """Returns the number of cases in the last line of a report, and the sum of its numbers by status."""
    head, _, counts = line.partition(": ")
    return int(head.split()[0]), sum(map(int, re.findall(r"(?:^|, )(\d+) ", counts)))


def test_the_run_stops_at_the_first_case_that_is_not_as_expected(project: Project) -> None:
    code, statuses, report = project.read("-x")
    assert (code, report["exit_code"]) == (1, 1)
    assert statuses.pop("wrong") == "unexpected"
    assert set(statuses.values()) == {"not checked"}
    assert (report["interrupted"], report["ended_by"]) == (True, "--exitfirst")
    (wrong,) = (case for case in report["cases"] if case["id"] == "wrong")  # type: ignore[attr-defined]
    assert wrong["replay"]["state"] == "done"  # the case that stops the run is complete
    code, out, _ = project.check("mine.py", "-x", "--no-replay")
    assert code == 1
    assert "right   nothing to check  y fresh\n" in out  # nothing of it was left to do
    assert "later   not run           \n" in out
    last = out.splitlines()[-1]
    assert "1 nothing to check, 1 unexpected" in last
    assert last.endswith("2 not run; ended by --exitfirst, the other cases were not done")
    assert compute_sum(last) == (4, 4)


def test_a_stop_at_the_last_case_leaves_nothing_out(project: Project) -> None:
    code, out, _ = project.check("mine.py::wrong", "-x")
    assert (code, "ended by" in out) == (1, False)


def test_an_error_stops_the_run_with_its_own_exit_code(project: Project) -> None:
    code, out, _ = project.check("mine.py::raises", "mine.py::later", "-x", "--refresh")
    assert code == 2
    assert "1 could not analyse, 1 not run; ended by --exitfirst" in out


def test_a_case_that_runs_beside_is_ended(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "mine.py").write_text(BESIDE)
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen(
        [sys.executable, "-m", "ligerdiag", "check", "mine.py", "-x", "-j", "2", "-q"],
        cwd=tmp_path,
        env=os.environ | {"LIGERDIAG_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 1, err
    assert "1 unexpected" in out
    assert "2 not run; ended by --exitfirst" in out
    assert not list((cache / "artifacts").glob(".tmp-*"))


def test_the_cases_of_the_last_run_are_selected_again(project: Project) -> None:
    code, out, _ = project.check("mine.py", "--lf")
    assert code == 2
    assert "selected: --last-failed: no earlier run in this folder is recorded, so all 4 selected cases run\n" in out
    code, statuses, report = project.read("--last-failed")
    assert (code, statuses) == (2, {"wrong": "unexpected", "raises": "could not analyse"})
    assert str(report["selected"]).startswith("--last-failed: 2 of 4 cases")
    cured = CASES.replace(', expected="hazard"', "").replace('raise ValueError("no")', 'return {"y": x}')
    (project.folder / "mine.py").write_text(cured)
    code, statuses, _ = project.read("--lf")
    assert (code, set(statuses)) == (5, {"wrong", "raises"})
    _, out, _ = project.check("mine.py", "--lf", "-q")
    assert "every case of the last run was as expected, so all 4 selected cases run" in out


def test_cases_that_a_stop_leaves_out_stay_remembered(project: Project) -> None:
    assert project.read("-x", "--no-replay")[0] == 1
    (project.folder / "mine.py").write_text(CASES.replace(', expected="hazard"', ""))
    code, statuses, report = project.read("--lf", "-x", "--no-replay")
    assert code == 2
    assert statuses["wrong"] == "nothing to check"  # first, since it had failed
    assert statuses["raises"] == "could not analyse"
    assert list(statuses) == ["wrong", "raises", "later"]
    assert "1 not as expected when last run and 2 not run when last selected" in str(report["selected"])


def test_quiet_shows_findings_and_the_last_line(project: Project) -> None:
    code, out, err = project.check("mine.py", "-q")
    assert (code, err) == (2, "")
    unexpected, empty, failed, other, last = out.splitlines()
    assert unexpected.startswith("unexpected: `wrong` on h100: ")
    assert failed.startswith("could not analyse `raises` on h100: ")
    assert (empty, other) == ("", "")
    assert compute_sum(last) == (4, 4)
    assert project.check("mine.py", "-q", "-v")[0] == 2


def test_verbose_shows_what_the_user_s_code_prints(project: Project) -> None:
    _, out, _ = project.check("mine.py", "-v")
    printed = [line for line in out.splitlines() if " | " in line]
    assert printed == ["mine.py | imported", "right | traced (4,)", "raises | about to raise"]
    _, again, _ = project.check("mine.py", "-v")  # from the cache
    assert [line for line in again.splitlines() if " | " in line] == printed
    _, out, _ = project.check("mine.py")
    assert "traced (4,)" not in out


def test_durations_are_those_of_the_run(project: Project) -> None:
    _, out, _ = project.check("mine.py", "--durations", "0", "--refresh")
    head, columns, *rows = out[out.index("slowest") :].splitlines()
    assert head == "slowest 4 of 4, in seconds; cases run beside each other:"
    assert columns.split() == ["total", "compile", "analysis", "replay"]
    assert {row.split()[4] for row in rows} == {"right", "wrong", "raises", "later"}
    totals = [float(row.split()[0]) for row in rows]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] > 0
    _, out, err = project.check("mine.py", "--durations", "1", "--format", "json")
    json.loads(out)
    assert "slowest 1 of 4" in err


def test_a_known_finding_stops_no_run(project: Project) -> None:
    (project.folder / "mine.py").write_text(DONATED)
    assert project.check("mine.py", "--record-known", "known.json")[0] == 1
    code, statuses, report = project.read("--known", "known.json", "-x")  # judged after the compile and the replay
    assert (code, statuses, report["interrupted"]) == (0, {"evaluate": "allowed"}, False)
