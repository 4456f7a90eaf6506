"""Programs with Refs contain the kind that their seed requires, and run with every generation of jax-triton."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.test_programs import walk
from tests.rotation import current_turn, take_turns
from tools.fuzz.__main__ import find_first_seed
from tools.fuzz.campaign_report import render_fuzz_report
from tools.fuzz.drawing import draw_program
from tools.fuzz.judged_programs import CALLED_RIGHT, FuzzReport, JudgedProgram
from tools.fuzz.programs import (
    KERNELS,
    KINDS,
    PALLAS,
    POLICIES,
    REF_MODES,
    REFS,
    ZEROS,
    RandomProgram,
    Step,
    find_kind,
)
from tools.fuzz.shrink import is_valid
from tools.fuzz.source import render_case_file


@cache
def draw_programs() -> tuple[RandomProgram, ...]:
    return tuple(draw_program(REFS + number) for number in range(600))


DAY, NIGHT = 7, 60
"""Numbers of programs."""
FAULTS = (REFS + 101,)
"""Programs on which a rule or the analysis once raised: the schedule has a call that the program lacks."""
_CALLS = ("loss", "squash", "layer", *KERNELS)
"""Words of steps that call a kernel."""


def list_words(program: RandomProgram) -> set[str]:
    """Returns the parts of kernels.py.txt and the forms of derivatives that the program needs, and its modes of calls."""
    found: set[str] = set()
    for step in walk(program.block):
        found.add(step.word)
        if step.word in _CALLS:
            found.add(f"call {step.mode.split(':')[-1]}")
        if step.word in ("gradient", "descent"):
            found.add(f"{step.word} {step.mode}")
    return found


def choose(count: int) -> list[RandomProgram]:
    """Returns this many programs that together need as much as possible; each needs the most of what is missing."""
    chosen: list[RandomProgram] = []
    missing = set().union(*map(list_words, draw_programs()))
    while len(chosen) < count:
        best = max(
            (one for one in draw_programs() if one.devices == 1 and one.scale == 1 and one not in chosen),
            key=lambda one: (len(missing & list_words(one)), -one.seed),
        )
        chosen.append(best)
        missing -= list_words(best)
    return chosen


def calls_kernel(step: Step) -> bool:
    inner = (one for block in step.blocks for one in walk(block))
    return step.word == "ref_loop" or any(one.word in _CALLS for one in inner)


def find_due(program: RandomProgram) -> Iterator[str]:
    for step in walk(program.block):
        if step.word in ("gradient", "descent") and calls_kernel(step):
            yield "differentiated"
        is_repeated = step.word in ("descent", "ref_loop", "scan") or (step.word == "gradient" and step.mode != "plain")
        if is_repeated and calls_kernel(step):
            yield "repeated"


def test_one_seed_in_three_is_differentiated_and_one_has_a_loop_or_a_checkpoint() -> None:
    for program in draw_programs():
        kind = find_kind(program.seed)
        assert kind == "any" or kind in find_due(program)
    assert find_kind(REFS - 1) is None
    assert [find_kind(REFS + number) for number in range(3)] == list(KINDS)


def test_some_hundred_programs_use_every_word_and_are_valid() -> None:
    assert [program.seed for program in draw_programs() if not is_valid(program)] == []
    words = set().union(*map(list_words, draw_programs()))
    assert {
        f"call {mode}" for mode in (*REF_MODES, ZEROS, "hidden", "aliased", "out_of_place", "trivial", "barrier")
    } <= words
    assert {f"{word} {policy}" for word in ("gradient", "descent") for policy in POLICIES} <= words
    assert {*KERNELS, "loss", "squash", "layer", "ref_loop", "scan", "while", "cond", "call", "shard_map"} <= words
    covered = set().union(*map(list_words, choose(DAY)))
    assert {word for word in words if word.startswith("call ")} <= covered
    assert {*KERNELS} - {*PALLAS} <= covered


def test_a_call_in_a_differentiated_function_has_a_rule_or_no_ref() -> None:
    """JAX would differentiate a call with a Ref, even if its operand does not depend on the variable."""
    for program in draw_programs():
        for step in walk(program.block):
            if step.word in ("gradient", "descent"):
                inner = [one for block in step.blocks for one in walk(block) if one.word in KERNELS]
                assert not any(one.mode in ("ref", "read", ZEROS) for one in inner)


def test_the_first_seed_is_that_of_the_installed_generation() -> None:
    assert find_first_seed() == 0  # 0.3.1 is pinned here


def test_the_report_counts_by_the_kind_that_is_due() -> None:
    rows = {
        REFS: JudgedProgram(seed=REFS, target="h100", outputs={"v": ("fresh", "fresh"), "w": ("stale", "fresh")}),
        REFS + 1: JudgedProgram(seed=REFS + 1, target="h100", outputs={"v": ("fresh", "fresh")}, unlike=("v",)),
    }
    lines = [line.split() for line in render_fuzz_report(FuzzReport(rows=rows)).splitlines()]
    assert ["programs", "wrong", "missed", "right", "false"] in lines
    assert ["differentiated", "1", "0", "0", "2", "1"] in lines
    assert ["repeated", "1", "1", "1", "0", "0"] in lines, "program order itself is wrong, and the output called right"


ONCE_WRONG = Path(__file__).with_name("once_wrong_newest.py")


def check(programs: Sequence[RandomProgram], python: Path, folder: Path) -> list[dict[str, Any]]:
    file = folder / "programs.py"
    file.write_text(render_case_file(programs, "Programs."), encoding="utf-8")
    return run_check([file, ONCE_WRONG], python, folder)


def run_check(files: Sequence[Path], python: Path, folder: Path) -> list[dict[str, Any]]:
    words = ["check", *map(str, files), "--format", "json", "--cache-dir", str(folder / "cache")]
    run = [python, "-P", "-m", "ligerdiag", *words]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False, timeout=900)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["cases"]


@pytest.mark.parametrize(
    ("generation", "count"),
    [
        ("newest", DAY),
        pytest.param("newest", NIGHT, marks=pytest.mark.nightly),
        pytest.param("pinned", NIGHT, marks=pytest.mark.nightly),
    ],
)
def test_all_programs_compile_and_have_numbers(
    generation: str, count: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """By day, the fewest programs that use every part and every mode of calls, in turns (tests/rotation.py).
    Programs once misjudged are as expected.
    """
    python = request.getfixturevalue("plain_python") if generation == "newest" else Path(sys.executable)
    programs = (
        [*choose(count), *map(draw_program, FAULTS)] if count == NIGHT else take_turns(choose(count), current_turn())
    )
    cases = check(programs, python, tmp_path)
    assert [case["error"] for case in cases if case["error"]] == []
    assert [case["id"] for case in cases if case["replay"]["state"] != "done"] == []
    *others, before = [case for case in cases if not case["id"].startswith("fuzz")]
    assert len(cases) == len(programs) + len(others) + 1
    assert (before["outputs"]["mean"], before["disagreements"]) == (
        "unknown" if generation == "newest" else "clobbered",
        [],
    )
    assert [(case["id"], case["status"], case["disagreements"]) for case in others] == [
        (name, "as expected", []) for name in ("backwards", "again", "carried")
    ]


@pytest.mark.nightly
def test_an_output_that_misses_a_dropped_kernel_is_never_called_right(plain_python: Path, tmp_path: Path) -> None:
    cases = run_check([Path(__file__).with_name("once_missed_newest.py")], plain_python, tmp_path)
    assert [case["error"] for case in cases if case["error"]] == []
    assert {
        case["id"]: case["outputs"]["gradient"] for case in cases if case["outputs"]["gradient"] in CALLED_RIGHT
    } == {}


def test_no_differentiated_loop_has_a_ref_of_zeros() -> None:
    """JAX would take the Ref out of the loop, leave the kernel, and fail."""
    for program in draw_programs():
        for step in walk(program.block):
            if step.word == "descent":
                inner = [one for block in step.blocks for one in walk(block)]
                assert not any(one.mode.split(":")[-1] == ZEROS for one in inner)


@pytest.mark.nightly
def test_the_result_of_a_kernel_on_a_wrong_gradient_is_never_called_right(plain_python: Path, tmp_path: Path) -> None:
    (case,) = run_check([Path(__file__).with_name("missed_behind_a_write.py")], plain_python, tmp_path)
    assert case["error"] == ""
    assert case["outputs"]["y"] not in CALLED_RIGHT
