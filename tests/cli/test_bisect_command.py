"""`ligerdiag bisect` through the real entry point: from options to a table or JSON and an exit code."""

import json
from pathlib import Path

import pytest

from ligerdiag.errors import InputError
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.report.comparisons import Axis
from ligerdiag.run_options import BisectOptions
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.bisection_samples import make_bisection


def test_the_table_goes_to_stdout_and_progress_to_stderr(api: FakeApi, run_command: RunCommand) -> None:
    outcome = run_command("bisect", "a", "--over", "edges")
    assert outcome.code == 0
    assert outcome.out.startswith("edges of flce[hidden] on h100, jax-0.11.2\n")
    assert outcome.err == "1/4 try a; so far: right with 2 ties\n"
    assert api.bisected == [BisectOptions(selectors=("a",), axis=Axis.EDGES)]


def test_every_option_is_passed_on(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    where = ("--target", "a100,h100", "--toolchains", "seed,0.6", "--create", "--cache-dir", str(tmp_path))
    how = ("--no-replay", "--replay-seconds", "60", "--replay-memory", "500M", "--full", "--device", "--limit", "9")
    run_command("bisect", "a", "b.py", "--over", "toolchains", *where, *how, "-j", "3", "--timeout", "7.5")
    assert api.bisected == [
        BisectOptions(
            selectors=("a", "b.py"),
            axis=Axis.TOOLCHAINS,
            targets=("a100", "h100"),
            toolchains=("seed", "0.6"),
            create=True,
            replay=False,
            bounds=Bounds(seconds=60.0, memory=500 << 20, full=True),
            device=True,
            limit=9,
            jobs=3,
            timeout=7.5,
            cache_directory=tmp_path,
        )
    ]


def test_over_targets_means_all_targets_unless_some_are_given(api: FakeApi, run_command: RunCommand) -> None:
    run_command("bisect", "a", "--over", "targets")
    run_command("bisect", "a", "--over", "targets", "--target", "b200")
    run_command("bisect", "a", "--over", "flags", "--toolchain", "seed")
    assert [options.targets for options in api.bisected] == [(), ("b200",), ("h100",)]
    assert api.bisected[-1].toolchain == "seed"


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"answers": ("no set",)}, 0), ({"is_unsettled": True}, 3), ({"interrupted": True}, 130)],
)
def test_the_exit_code_tells_whether_there_is_an_answer(
    api: FakeApi, run_command: RunCommand, changes: dict[str, object], code: int
) -> None:
    api.bisections = (make_bisection(), make_bisection(**changes))
    assert run_command("bisect", "a", "--over", "edges").code == code


def test_an_interruption_outranks_a_failed_analysis(api: FakeApi, run_command: RunCommand) -> None:
    api.bisections = (make_bisection(is_unsettled=True), make_bisection(interrupted=True))
    assert run_command("bisect", "a", "--over", "edges").code == 130


def test_json_holds_the_exit_code(api: FakeApi, run_command: RunCommand) -> None:
    api.bisections = (make_bisection(is_unsettled=True),)
    outcome = run_command("bisect", "a", "--over", "edges", "--format", "json")
    assert json.loads(outcome.out)["exit_code"] == outcome.code == 3


def test_the_file_gets_json_and_the_terminal_the_table(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    outcome = run_command("bisect", "a", "--over", "edges", "--format", "json", "--output", str(file))
    assert json.loads(file.read_text())["bisections"][0]["case"] == "flce[hidden]"
    assert outcome.out.startswith("edges of flce[hidden]")


@pytest.mark.parametrize("words", [("--over", "moods"), ("--limit", "0", "--over", "edges"), ()])
def test_wrong_usage_exits_with_2(api: FakeApi, run_command: RunCommand, words: tuple[str, ...]) -> None:
    assert run_command("bisect", "a", *words).code == 2
    assert not api.bisected


def test_an_inapplicable_axis_is_a_one_line_error(api: FakeApi, run_command: RunCommand) -> None:
    api.error = InputError("there is only one mode of `a`")
    outcome = run_command("bisect", "a", "--over", "mitigation")
    assert (outcome.code, outcome.err) == (2, "error: there is only one mode of `a`\n")
