"""`ligerdiag toolchains`: from arguments to a table, JSON and an exit code."""

import json

import pytest

from tests.cli.conftest import FakeApi, RunCommand


@pytest.fixture(autouse=True)
def _fake(api: FakeApi) -> None:
    del api


def test_the_list_shows_the_state_of_each_toolchain(run_command: RunCommand) -> None:
    outcome = run_command("toolchains")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "toolchain  environment  jax     jax-triton  triton  python  about",
        "whole      there        0.4.34  -           3.1.0   3.12    for tests",
        "absent     not created  0.4.34  -           3.1.0   3.12    for tests",
        "broken     broken       0.4.34  -           3.1.0   3.12    for tests",
    ]


def test_the_doctor_gives_the_reason_and_an_exit_code_for_a_broken_toolchain(run_command: RunCommand) -> None:
    outcome = run_command("toolchains", "doctor")
    assert outcome.code == 3
    assert outcome.out.splitlines()[1:] == [
        "whole      environment  works    /cache/whole",
        "absent     environment  missing  not created yet",
        "broken     environment  works    /cache/broken",
        "broken     packages     broken   no triton",
    ]


@pytest.mark.parametrize(("names", "code"), [(("whole",), 0), (("absent",), 3), (("whole", "broken"), 3)])
def test_a_missing_toolchain_fails_the_doctor_only_if_named(
    names: tuple[str, ...], code: int, run_command: RunCommand
) -> None:
    assert run_command("toolchains", "doctor", *names).code == code


def test_json_contains_every_step(run_command: RunCommand) -> None:
    outcome = run_command("toolchains", "doctor", "broken", "--format", "json")
    assert outcome.code == 3
    (record,) = json.loads(outcome.out)["toolchains"]
    assert (record["name"], record["state"], record["directory"]) == ("broken", "broken", "/cache/broken")
    assert record["versions"] == {"jax": "0.4.34", "triton": "3.1.0"}
    assert [(step["name"], step["state"]) for step in record["steps"]] == [
        ("environment", "works"),
        ("packages", "broken"),
    ]


def test_progress_of_create_goes_to_stderr_without_control_characters(run_command: RunCommand) -> None:
    outcome = run_command("toolchains", "create", "whole")
    assert outcome.code == 0
    assert outcome.err == "creating toolchain whole\n"
    assert outcome.out.splitlines()[1].startswith("whole      there")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create",), "expected the names of the toolchains to create"),
        (("list", "seed"), "`list` takes no names, but got `seed`"),
    ],
)
def test_create_requires_names_and_list_refuses_them(
    words: tuple[str, ...], told: str, run_command: RunCommand
) -> None:
    outcome = run_command("toolchains", *words)
    assert outcome.code == 2
    assert told in outcome.err
