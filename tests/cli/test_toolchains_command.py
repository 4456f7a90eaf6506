"""`ligerdiag toolchains`: words in, table, JSON and exit code out."""

import json

import pytest

from tests.cli.conftest import FakeApi, RunCommand


@pytest.fixture(autouse=True)
def _fake(api: FakeApi) -> None:
    del api


def test_the_list_says_what_is_there(run_command: RunCommand) -> None:
    outcome = run_command("toolchains")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "toolchain  environment  jax     jax-triton  triton  python  about",
        "whole      there        0.4.34  -           3.1.0   3.12    for tests",
        "absent     not created  0.4.34  -           3.1.0   3.12    for tests",
        "broken     broken       0.4.34  -           3.1.0   3.12    for tests",
    ]


def test_the_doctor_says_why_and_its_exit_code_says_that_one_is_broken(run_command: RunCommand) -> None:
    outcome = run_command("toolchains", "doctor")
    assert outcome.code == 3
    assert outcome.out.splitlines()[1:] == [
        "whole      environment  works    /cache/whole",
        "absent     environment  missing  not created yet",
        "broken     environment  works    /cache/broken",
        "broken     packages     broken   no triton",
    ]


@pytest.mark.parametrize(("names", "code"), [(("whole",), 0), (("absent",), 3), (("whole", "broken"), 3)])
def test_the_doctor_minds_what_is_missing_only_when_it_is_named(
    names: tuple[str, ...], code: int, run_command: RunCommand
) -> None:
    assert run_command("toolchains", "doctor", *names).code == code


def test_json_holds_every_step(run_command: RunCommand) -> None:
    outcome = run_command("toolchains", "doctor", "broken", "--format", "json")
    assert outcome.code == 3
    (record,) = json.loads(outcome.out)["toolchains"]
    assert (record["name"], record["state"], record["directory"]) == ("broken", "broken", "/cache/broken")
    assert record["versions"] == {"jax": "0.4.34", "triton": "3.1.0"}
    assert [(step["name"], step["state"]) for step in record["steps"]] == [
        ("environment", "works"),
        ("packages", "broken"),
    ]


def test_creating_is_told_on_stderr_without_control_characters(run_command: RunCommand) -> None:
    outcome = run_command("toolchains", "create", "whole")
    assert outcome.code == 0
    assert outcome.err == "creating toolchain whole\n"
    assert outcome.out.splitlines()[1].startswith("whole      there")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create",), "expected the names of the toolchains to create"),
        (("list", "seed"), "`list` takes no names but got `seed`"),
    ],
)
def test_names_are_asked_for_and_refused(words: tuple[str, ...], told: str, run_command: RunCommand) -> None:
    outcome = run_command("toolchains", *words)
    assert outcome.code == 2
    assert told in outcome.err
