"""After Ctrl-C, SIGTERM or a time limit, every format shows the results so far and lists the cases that were not
checked.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
FORMS = ("terminal", "json", "sarif", "junit", "github", "markdown")
CASES = """
import os
import jax.numpy as jnp
from ligerdiag import Arg, Case

def first(x):
    return {"y": jnp.sin(x)}

def blocked(x):
    with open("pipe", "w"):  # until the test has opened it, too
        pass
    with open("pipe") as pipe:  # which nobody writes to
        pipe.read()
    return {"y": x}

CASES = tuple(Case(name=one.__name__, function=one, args=(Arg(shape=(4,)),)) for one in (first, blocked, first))[:2] + (
    Case(name="last", function=blocked, args=(Arg(shape=(4,)),)),
)
"""
SHIELDED = """
import os, signal, sys, threading
from queue import SimpleQueue
from ligerdiag.ending import watch_for_end, work_until_ended

with watch_for_end({limit}):
    with work_until_ended() as work:
        print("working", flush=True)
        {work}
    print(work.ending, flush=True)
    {after}
    print("written", flush=True)
"""


@dataclass(frozen=True)
class Project:
    """A folder with three cases: the first is in the cache, the others wait forever."""

    folder: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        outputs = [word for form in FORMS for word in ("--output", f"{form}=report.{form}")]
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "ligerdiag",
                "check",
                "mine.py",
                "-j",
                "1",
                *outputs,
                "--html",
                "pages",
                *arguments,
            ],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"LIGERDIAG_CACHE_DIR": str(self.folder / "cache"), "PYTHONPATH": str(ROOT)}

    def wait_until_blocked(self) -> None:
        with (self.folder / "pipe").open() as pipe:
            pipe.read()

    def read(self, form: str) -> str:
        return (self.folder / f"report.{form}").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    one = Project(tmp_path_factory.mktemp("project"))
    (one.folder / "mine.py").write_text(CASES)
    os.mkfifo(one.folder / "pipe")
    command = [sys.executable, "-m", "ligerdiag", "check", "mine.py::first", "--no-replay"]
    done = subprocess.run(command, cwd=one.folder, env=one.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr  # no kernel: nothing to check
    return one


def assert_every_format_is_complete(project: Project, out: str, code: int, ended_by: str) -> None:
    """Each format is a complete file, lists all three cases, and says how the run was ended."""
    report = json.loads(project.read("json"))
    assert (report["exit_code"], report["interrupted"], report["ended_by"]) == (code, True, ended_by)
    statuses = {case["id"]: case["status"] for case in report["cases"]}
    assert statuses == {"first": "nothing to check", "blocked": "not checked", "last": "not checked"}
    assert report["cases"][0]["replay"]["state"] == "not done"
    assert f"ended by {ended_by}" in report["cases"][1]["error"]
    run = json.loads(project.read("sarif"))["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    told = [one["descriptor"]["id"] for one in run["invocations"][0]["toolExecutionNotifications"]]
    assert told == ["not-checked", "not-checked", "interrupted"]
    tests = ElementTree.fromstring(project.read("junit")).iter("testcase")
    results = {test.get("name"): [child.tag for child in test] for test in tests}
    assert results == {"first": ["skipped"], "blocked": ["skipped"], "last": ["skipped"], "interrupted": ["error"]}
    how = "interrupted" if ended_by == "Ctrl-C" else f"ended by {ended_by}"
    for text in (out, project.read("terminal"), project.read("github"), project.read("markdown")):
        assert "2 not run" in text
        assert f"{how}, the other cases were not done" in text
        assert "blocked" in text
    assert project.read("github").startswith("::error title=interrupted::")
    assert f"{how}: not every case was done" in (project.folder / "pages" / "index.html").read_text(encoding="utf-8")
    pages = "".join(page.read_text(encoding="utf-8") for page in (project.folder / "pages").glob("*.html"))
    assert pages.count("</html>") == 4
    assert not list(project.folder.rglob(".*report*"))


@pytest.mark.parametrize(
    ("number", "code", "ended_by"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_a_signal_keeps_the_results_so_far(project: Project, number: signal.Signals, code: int, ended_by: str) -> None:
    process = project.start()
    project.wait_until_blocked()
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == code, err
    assert_every_format_is_complete(project, out, code, ended_by)


def test_a_time_limit_keeps_the_results_so_far_and_exits_with_3(project: Project) -> None:
    process = project.start("--time-limit", "5")  # the first case is in the cache, the second one never ends
    out, err = process.communicate()
    assert process.returncode == 3, err
    assert_every_format_is_complete(project, out, 3, "the time limit")


@pytest.mark.parametrize(
    ("limit", "work", "after", "out", "code"),
    [
        ("0.2", "SimpleQueue().get()", "", "working\nthe time limit\nwritten\n", 0),
        ("None", "os.kill(os.getpid(), signal.SIGTERM)", "", "working\nSIGTERM\nwritten\n", 0),
        ("None", "pass", "os.kill(os.getpid(), signal.SIGTERM)", "working\nNone\nwritten\n", 0),
        ("None", "pass", "os.kill(os.getpid(), signal.SIGINT)", "working\nNone\nwritten\n", 0),
        (
            "None",
            "os.kill(os.getpid(), signal.SIGINT)",
            "os.kill(os.getpid(), signal.SIGTERM)",
            "working\nCtrl-C\nwritten\n",
            0,
        ),
        (
            "None",
            "os.kill(os.getpid(), signal.SIGINT)",
            "os.kill(os.getpid(), signal.SIGINT)",
            "working\nCtrl-C\n",
            -signal.SIGINT,
        ),
    ],
    ids=["limit", "term", "term while writing", "int while writing", "term after int", "int twice"],
)
def test_signals_wait_while_the_report_is_written_except_a_second_ctrl_c(
    limit: str, work: str, after: str, out: str, code: int
) -> None:
    text = SHIELDED.format(limit=limit, work=work, after=after)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout, done.returncode) == (out, code), done.stderr


@pytest.mark.parametrize(("again", "out"), [("again=True", "Ctrl-C\nNone\n"), ("", "None\nCtrl-C\n")])
def test_a_second_piece_of_work_can_be_ended_where_the_first_one_is_written(again: str, out: str) -> None:
    text = f"""
import os, signal
from ligerdiag.ending import watch_for_end, work_until_ended

with watch_for_end() as watch:
    with work_until_ended():
        pass
    with work_until_ended({again}) as work:
        os.kill(os.getpid(), signal.SIGINT)
print(work.ending, watch.missed, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout, done.returncode) == (out, 0), done.stderr


def test_a_signal_before_the_work_has_its_usual_effect() -> None:
    text = SHIELDED.partition("with work")[0].format(limit=None) + "    os.kill(os.getpid(), signal.SIGTERM)\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGTERM
