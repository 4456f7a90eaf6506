"""A newcomer's project, kept as its author wrote it, with the versions pinned here and with those of a plain install.

`answers` derives the right results by hand. A program with the same answer for both is checked only with a plain
install: all of cases/ runs with the pinned versions. Every way to write a call is checked every day in its smallest
program. The nightly run adds the train steps and the output of the author's own scripts, which use the same calls.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.newcomer.answers import PROGRAMS, Program
from tests.newcomer.project_runs import Surroundings, check_programs, copy_project, find_differences, find_refusals
from tests.newcomer.project_scripts import count_by_donation, is_refused, run_tests, run_variants

MAX_LINES = 60
"""The largest number of lines for two mistakes in eight layers."""


CHECKED = {"pinned": tuple(program for program in PROGRAMS if program.older != program.newer), "plain": PROGRAMS}
DAILY, NIGHTLY = "daily", "nightly"
NIGHTLY_FILES = ("direct_lm.py", "direct_adam.py", "cases_dp.py", "cases_tiny.py", "cases_deep.py")
DAILY_OF_TWO_DEVICES = ("dp-hidden", "dp-aliased")
nightly = pytest.mark.nightly


def find_level(program: Program) -> str:
    is_other = program.file == "cases_dp2.py" and program.case not in DAILY_OF_TWO_DEVICES
    return NIGHTLY if program.file in NIGHTLY_FILES or is_other or program.case.endswith("scaled") else DAILY


@pytest.fixture(scope="module", params=list(CHECKED))
def newer(request: pytest.FixtureRequest) -> bool:
    """Whether jax-triton is 0.4 or later."""
    return request.param == "plain"


@pytest.fixture(scope="module")
def level(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def project(newer: bool, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    python = request.getfixturevalue("plain_python") if newer else Path(sys.executable)
    return copy_project(python, tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def reports(newer: bool, level: str, project: Surroundings) -> Mapping[Program, Any]:
    programs = CHECKED["plain" if newer else "pinned"]
    return check_programs(project, [program for program in programs if find_level(program) == level])


@pytest.mark.parametrize(
    ("newer", "level", "program"),
    [
        pytest.param(versions, level, program, id=f"{versions}-{program.selector}", marks=marks)
        for versions, programs in CHECKED.items()
        for level, marks in ((DAILY, ()), (NIGHTLY, nightly))
        for program in programs
        if find_level(program) == level
    ],
    indirect=["newer", "level"],
    scope="module",
)
def test_a_program_gets_the_answer_derived_by_hand(
    program: Program, newer: bool, reports: Mapping[Program, Any], request: pytest.FixtureRequest
) -> None:
    answer = program.newer if newer else program.older
    if answer.gap:
        request.applymarker(pytest.mark.xfail(strict=True, reason=answer.gap))
    assert find_differences(answer, reports[program]) == []


def test_an_invalid_file_exits_with_2_and_a_kernel_that_does_not_compile_with_3(project: Surroundings) -> None:
    assert find_refusals(project) == []


@nightly
@pytest.mark.parametrize(("newer", "level"), [("plain", NIGHTLY)], indirect=True, scope="module")
def test_a_case_donates_what_its_jitted_function_donates(project: Surroundings, reports: Mapping[Program, Any]) -> None:
    """don.py: all outputs but the loss and the count miss the write. Their verdicts depend on donation, which a Case
    takes from `jax.jit`.
    """
    counted = count_by_donation(project)
    for donate, case in ((False, "hidden-hidden"), (True, "donate_hidden")):
        (report,) = (report for program, report in reports.items() if program.case == case)
        assert counted[donate] == Counter(report["outputs"].values())
        assert counted[donate]["fresh"] == 2
        assert counted[donate]["stale"] + counted[donate]["latent"] == 28


@nightly
def test_the_modes_of_the_loss_in_a_script(newer: bool, project: Surroundings) -> None:
    """mlp_variants.py: before 0.4 an alias needs one pointer more than `aliased4` has, since then one less than
    `aliased` has.
    """
    found = run_variants(project, "hidden,aliased,aliased4,ref", "plain")
    status, outputs, _ = found["hidden"]
    assert status == "findings"
    assert {name for name, verdict in outputs.items() if verdict == "fresh"} == {"loss"}
    assert set(outputs.values()) <= {"fresh", "stale", "latent"}
    right, refused = (("aliased4", "ref"), ("aliased",)) if newer else (("aliased",), ("ref",))
    for mode in right:
        assert found[mode][0] == "clean", mode
        assert set(found[mode][1].values()) == {"fresh"}
    for mode in refused:
        assert found[mode][0] == "could not analyse", mode
        assert is_refused(found[mode][2], newer=newer)
    if not newer:
        assert found["aliased4"][0] == "inconclusive"
        assert set(found["aliased4"][1].values()) == {"unknown"}


def test_a_kernel_without_a_batching_rule_is_refused_with_a_remedy(project: Surroundings) -> None:
    """mlp_variants.py vmap."""
    status, _, said = run_variants(project, "hidden", "vmap")["hidden"]
    assert status == "could not analyse"
    assert "does not support batching with jax.vmap. Use jax.custom_batching.custom_vmap" in said


def test_the_fixed_step_of_the_how_to_is_fresh_or_says_what_to_write(newer: bool, project: Surroundings) -> None:
    """howto/: the alias is written in the style of jax-triton before 0.4."""
    outcome = project.run("check_train_step.py", folder="howto")
    if newer:
        assert outcome.out.splitlines()[0] == "status: could not analyse"
        said = project.run(
            "-c",
            "import ligerdiag, train; print(ligerdiag.check(train.train_step, *train.make_arguments()).error)",
            folder="howto",
        )
        assert is_refused(said.out, newer=True), said
        return
    assert outcome.code == 0, outcome
    assert outcome.out.splitlines() == [
        "status: clean",
        "loss: fresh",
        "params.b: fresh",
        "params.w: fresh",
        "replay: done",
    ]


@nightly
def test_the_projects_own_tests_give_the_right_results(newer: bool, project: Surroundings) -> None:
    """tests/: a wrong schedule fails, an unknown option or target fails, two targets and a true expectation pass."""
    found = run_tests(project, "tests/test_more.py", "tests/test_schedule.py", "tests/test_train.py::test_donated")
    passed = {name for name, (state, _) in found.items() if state == "PASSED"}
    assert {"test_fixture_expect"} <= passed
    assert "InputError: expected a target of a100, a100_pcie_80, " in found["test_bad_target"][1]
    assert "InputError: expected one of target, " in found["test_typo"][1]
    assert "; `train_step` on h100: findings" in found["test_donated"][1]
    assert ("test_two_targets" in passed) is not newer
    assert ("test_a_case_is_as_expected[starter]" in passed) is newer
    assert len(found) == 6


@nightly
def test_two_mistakes_in_eight_layers_are_two_findings(newer: bool, project: Surroundings) -> None:
    """cases_deep.py: the calls in `rms_norm` and `cross_entropy`; one of them runs in each layer."""
    if newer:
        pytest.skip("the output does not depend on the version; deep4 is checked with both")
    outcome = project.check("cases_deep.py::deep8")
    assert outcome.code == 1, outcome
    assert len(re.findall(r"^(?:error|warning|note)\[", outcome.out, re.MULTILINE)) == 2
    assert len(outcome.out.splitlines()) <= MAX_LINES
    for file in ("rms_norm.py", "cross_entropy.py"):
        assert re.search(rf"--> src/tinylm/kernels/{file}:\d+\n   \| .*jt\.triton_call\(", outcome.out)
    assert "in 8 layers" in outcome.out
