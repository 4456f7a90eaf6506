"""Steps of training and decoding: each finding about copies was read against the schedule, and its remedy tried.

docs/measurements/2026-11-26-memory-of-steps.md lists all of them.
"""

import shutil
from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions, InspectOptions, check, inspect
from ligerdiag.model.report import CaseReport

STEPS = Path(__file__).with_name("steps")
FOUND = {
    "train.py::accumulated": ("LD031 note",),
    "train.py::loss_first": ("LD027 warning",),
    "train.py::several_steps": ("LD031 note",),
    "train.py::target_network": ("LD027 warning",),
    "decode.py::beams": ("LD029 warning",),
    "decode.py::one_stacked": ("LD027 warning",),
    "decode.py::rolled": ("LD027 warning", "LD027 warning"),
    "decode.py::scan_stacked": ("LD029 warning", "LD031 note"),
    "more.py::advantages": ("LD027 warning",),
    "more.py::by_layer": ("LD027 warning",),
    "more.py::grown": ("LD028 warning",),
    "more.py::reordered": ("LD027 warning",),
    "more.py::ring_attention": ("LD029 warning",),
    "split.py::both_jit": ("LD027 note", "LD027 note", "LD027 warning", "LD027 warning", "LD028 warning"),
    "split.py::fsdp_jit": ("LD027 note",),
    "split.py::tensor_jit": ("LD028 warning",),
    "split.py::zero_one": ("LD027 warning", "LD028 warning"),
}
"""File and case to the rules and severities of their findings; the other cases have none."""
MESSAGES = {
    "train.py::loss_first": (
        "14 copies move 28.0 MiB: output `1.1.0.nu.layers.qkv` has the bytes of the donated argument"
        " `opt_state.1.0.mu.layers.qkv`, but is computed from `opt_state.1.0.nu.layers.qkv`, which is donated, too"
    ),
    "train.py::target_network": (
        "a copy moves 1.0 MiB: `dot_general` reads the old value of argument `params.b` after `add` overwrites it, and"
        " does not need the new value"
    ),
    "decode.py::one_stacked": (
        "two copies move 8.0 MiB: a loop reads argument `cache.v` part by part, and collects output `1.v` in an array of"
        " its own, which XLA then copies back"
    ),
    "decode.py::rolled": (
        "four copies move 4.0 MiB: `scatter` cannot overwrite what it reads, so it computes output `1.0.0` in other"
        " bytes, and XLA copies the output into the donated argument `caches.0.0`"
    ),
    "more.py::ring_attention": (
        "two copies move 4.0 MiB (1.0 MiB in each of 4 iterations): `ppermute` cannot overwrite the loop's state, which it"
        " moves to another device"
    ),
    "split.py::zero_one": (
        "two copies move 512.0 KiB: output `1.0.mu.a` has the bytes of the donated argument `opt_state.0.nu.a`, but is"
        " computed from `opt_state.0.mu.a`, which is donated, too"
    ),
}


def judge(cache: Path, *selectors: str) -> dict[str, CaseReport]:
    """Returns the reports of cases by the selectors' names."""
    chosen = tuple(f"{STEPS}/{one}" for one in selectors)
    cases = check(CheckOptions(selectors=chosen, cache_directory=cache, replay=False)).cases
    assert {case.id: case.error for case in cases if case.error} == {}
    return {case.id: case for case in cases}


def list_findings(case: CaseReport) -> tuple[str, ...]:
    return tuple(sorted(f"{one.rule} {one.severity.value}" for one in case.findings))


@pytest.mark.parametrize("name", MESSAGES)
def test_the_findings_name_what_the_schedule_shows(name: str, shared_cache: Path) -> None:
    (case,) = judge(shared_cache, name).values()
    assert list_findings(case) == FOUND[name]
    assert MESSAGES[name] in {one.message for one in case.findings}


def test_a_void_donation_names_the_output_of_the_same_name(shared_cache: Path) -> None:
    (case,) = judge(shared_cache, "split.py::zero_one").values()
    (void,) = [one for one in case.findings if one.rule == "LD028"]
    assert "output `0.a` is split over the devices in another way" in void.message


def test_a_dump_has_the_same_findings_also_about_donations_of_split_arrays(shared_cache: Path, tmp_path: Path) -> None:
    (case,) = judge(shared_cache, "split.py::zero_one").values()
    for stage, file in (("sm_9.0_gpu_after_optimizations", "optimized"), ("before_optimizations", "unoptimized")):
        shutil.copy(Path(case.artifact) / f"{file}.hlo.pb", tmp_path / f"module_0001.jit_step.{stage}.hlo.pb")
    (dumped,) = inspect(InspectOptions(paths=(tmp_path,), replay=False)).cases
    assert list_findings(dumped) == FOUND["split.py::zero_one"]
    (void,) = [one for one in dumped.findings if one.rule == "LD028"]
    assert "output 0 is split over the devices in another way" in void.message


def test_a_cache_that_a_branch_and_attention_both_write_is_copied_because_it_must_be(shared_cache: Path) -> None:
    (case,) = judge(shared_cache, "decode.py::speculative").values()
    assert case.findings == ()
    assert case.memory is not None
    assert len(case.memory.copies) == 8
    assert all(one.is_needed for one in case.memory.copies)


@pytest.mark.parametrize(
    "name", ["in_order", "gradients_first", "rolled_not_donated", "ring_in_pairs", "whole_parameters"]
)
def test_the_remedies_leave_nothing_to_find(name: str, shared_cache: Path) -> None:
    (case,) = judge(shared_cache, f"cured.py::{name}").values()
    assert list_findings(case) == ()


@pytest.mark.nightly
@pytest.mark.parametrize("file", ["train.py", "decode.py", "split.py", "more.py", "cured.py"])
def test_all_steps_have_these_findings_and_no_others(file: str, shared_cache: Path) -> None:
    found = {f"{file}::{name}": list_findings(case) for name, case in judge(shared_cache, file).items()}
    assert {name: rules for name, rules in found.items() if rules} == {
        name: rules for name, rules in FOUND.items() if name.startswith(file)
    }
