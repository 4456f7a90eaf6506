"""JAX changes a program between the trace and XLA: it moves reads of Refs, and drops kernel calls.

The expected verdicts are derived from the programs by hand. Each program has a reference without a Ref. Replay compares
both, so that a wrong expectation, or a wrong program as written, shows as LD016 or as a disagreement.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ligerdiag import api
from ligerdiag.artifacts.artifact import Artifact, load_artifact
from ligerdiag.artifacts.call_records import MovedRef, RefMove
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

PROGRAMS = Path(__file__).parent / "programs"
FRESH, STALE = Verdict.FRESH, Verdict.STALE


@pytest.fixture(scope="module")
def stores(shared_cache: Path) -> Mapping[str, CaseReport]:
    return check(PROGRAMS / "stores_in_loops.py", shared_cache)


@pytest.fixture(scope="module")
def calls(shared_cache: Path) -> Mapping[str, CaseReport]:
    return check(PROGRAMS / "calls_on_a_line.py", shared_cache)


def check(path: Path, cache: Path) -> Mapping[str, CaseReport]:
    report = api.check(api.CheckOptions(selectors=(str(path),), cache_directory=cache))
    for case in report.cases:
        assert not case.error, case.log_tail
        assert not case.disagreements, case.id
        assert "LD016" not in list_rules(case), case.id
    return {case.id: case for case in report.cases}


def list_rules(case: CaseReport) -> list[str]:
    return [finding.rule for finding in case.findings]


MOVED_STORES = (
    "by_scan_of_zeros", "by_scan_of_ones", "by_scan_added", "by_scan_by_addupdate", "by_scan_in_part",
    "by_scan_by_a_helper", "by_scan_by_a_helpers_helper", "by_scan_by_a_loop", "by_scan_read_by_the_helper",
    "by_map_of_zeros", "by_fori_loop_of_zeros", "by_nested_scans_of_zeros",
)  # fmt: skip


def test_a_read_that_jax_separates_from_its_store_is_stale(stores: Mapping[str, CaseReport]) -> None:
    for name in MOVED_STORES:
        case = stores[f"differentiated_{name}"]
        assert case.outputs == {"gradient": STALE, "other": FRESH, "value": STALE}, case.id
        assert list_rules(case) == ["LD023"], case.id


def test_a_ref_that_jax_does_not_move_is_right(stores: Mapping[str, CaseReport]) -> None:
    others = {name: case for name, case in stores.items() if name.removeprefix("differentiated_") not in MOVED_STORES}
    assert len(others) == 13
    for name, case in others.items():
        assert set(case.outputs.values()) == {FRESH}, name
        assert case.findings == (), name


def test_the_finding_names_the_three_places(stores: Mapping[str, CaseReport]) -> None:
    (finding,) = stores["differentiated_by_scan_in_part"].findings
    lines = (PROGRAMS / "stores_in_loops.py").read_text().splitlines()
    begin = lines.index("def in_part(x):") + 1
    assert finding.source is not None
    assert finding.source.line == begin + 3  # the read
    evidence = dict(finding.evidence)
    assert evidence["ref"].startswith(f"JAX creates the Ref once ({PROGRAMS / 'stores_in_loops.py'}:{begin + 1})")
    assert evidence["write"].endswith(f"stores_in_loops.py:{begin + 2})")
    assert "jax.new_ref(0 * x)" in finding.help


def test_a_kernel_beside_a_ref_that_jax_does_not_move_has_no_finding(shared_cache: Path) -> None:
    cases = check(PROGRAMS / "refs_in_branches.py", shared_cache)
    assert len(cases) == 14
    for name, case in cases.items():
        assert case.outputs == {"by_w": FRESH, "by_x": FRESH, "total": FRESH}, name
        assert case.findings == (), name


ELSEWHERE = MovedRef(kind=RefMove.UNKNOWN, made=None, read=None, write=None, kernel="", call="")


@pytest.mark.parametrize(("moves", "verdict"), [((ELSEWHERE,), Verdict.UNKNOWN), ((), FRESH)])
def test_an_output_without_a_known_move_is_unknown_or_fresh(
    stores: Mapping[str, CaseReport], shared_cache: Path, moves: tuple[MovedRef, ...], verdict: Verdict
) -> None:
    assert stores
    artifact = find_artifact("differentiated_by_scan_of_zeros", shared_cache)
    assert artifact.provenance.moved_refs
    provenance = replace(artifact.provenance, moved_refs=moves)
    found = inspect_artifact(replace(artifact, provenance=provenance), effects_cache=shared_cache / "effects")
    assert found.outputs == {"gradient": verdict, "other": FRESH, "value": verdict}
    assert found.findings == ()
    notes = [note for note in found.coverage.not_covered if "whether the write by a store reaches the Ref" in note]
    assert len(notes) == len(moves)
    assert all("`gradient` and `value`" in note for note in notes)


def find_artifact(name: str, cache: Path) -> Artifact:
    """Returns the newest artifact of a case of the stores; earlier states of the package may have left others."""
    finished = [one for one in (cache / "artifacts").iterdir() if not one.name.startswith(".")]
    folders = sorted(finished, key=lambda folder: folder.stat().st_mtime, reverse=True)
    found = (load_artifact(folder) for folder in folders if name in (folder / "provenance.json").read_text())
    return next(one for one in found if one.provenance.case_id == name)


@pytest.mark.parametrize(
    ("name", "wrong", "missing"),
    [
        ("one_of_a_line", {"k"}, 1),
        ("both_of_a_line", set[str](), 0),
        ("nobody_reads_the_other", set[str](), 0),
        ("two_callers", {"k"}, 1),
        ("called_twice_as_one_function", {"k"}, 1),
        ("both_computed_again", {"gradients.0", "gradients.1"}, 2),
    ],
)
def test_only_the_dropped_call_is_missing(
    calls: Mapping[str, CaseReport], name: str, wrong: set[str], missing: int
) -> None:
    case = calls[name]
    assert {output for output, verdict in case.outputs.items() if verdict is not FRESH} == wrong
    found = [finding for finding in case.findings if finding.rule == "LD007"]
    assert len(found) == missing
    assert all(finding.source is not None and "doubling_kernel" in finding.source.file for finding in found)


@pytest.mark.nightly
def test_moves_beside_pallas_and_under_other_derivatives_blame_no_kernel(shared_cache: Path) -> None:
    cases = check(PROGRAMS / "refs_beside.py", shared_cache)
    moved = {"pallas_in_zeros", "twice", "linear", "jvp_rule", "vjp_rule"}
    assert len(cases) == 10
    for name, case in cases.items():
        assert set(case.outputs.values()) == {STALE if name in moved else FRESH}, name
        assert list_rules(case) == (["LD023"] if name in moved else []), name
        assert all(finding.kernel == "" for finding in case.findings), name


def check_in_environment(python: Path, folder: Path, *selectors: str) -> dict[str, Any]:
    """Returns the cases of a run in the environment that has Refs for kernels."""
    done = subprocess.run(
        [python.parent / "ligerdiag", "check", *selectors, "--format", "json"],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return {case["id"]: case for case in json.loads(done.stdout)["cases"]}


def assert_moved(case: Mapping[str, Any]) -> None:
    assert set(case["outputs"].values()) == {"stale"}, case["id"]
    assert {finding["rule"] for finding in case["findings"]} == {"LD023"}, case["id"]
    assert case["disagreements"] == [], case["id"]


def assert_dropped(case: Mapping[str, Any]) -> None:
    assert case["outputs"] == {"gradient": "stale", "other": "fresh", "value": "fresh"}, case["id"]
    assert {finding["rule"] for finding in case["findings"]} == {"LD007"}, case["id"]
    assert case["disagreements"] == [], case["id"]


def assert_right(case: Mapping[str, Any]) -> None:
    assert not case["error"], case["id"]
    assert set(case["outputs"].values()) == {"fresh"}, case["id"]
    assert case["findings"] == [], case["id"]
    assert case["disagreements"] == [], case["id"]


def assert_refused(case: Mapping[str, Any]) -> None:
    assert "JAX cannot differentiate this: it moves the creation of the Ref at " in case["error"], case["id"]
    assert "Initialize the Ref with a value that depends on an input" in case["error"], case["id"]


def test_kernels_that_write_refs_are_judged_by_their_intent(plain_python: Path, tmp_path: Path) -> None:
    loops, again = PROGRAMS / "refs_in_loops.py", PROGRAMS / "refs_computed_again.py"
    names = ("scan-zeros", "scan-zeros_of_the_iteration", "scan-frozen_zeros")
    cases = check_in_environment(
        plain_python, tmp_path, *(f"{loops}::{name}" for name in names), f"{again}::by_freeze", f"{again}::two_callers"
    )
    assert len(cases) == 5
    assert_moved(cases["scan-zeros"])
    assert_right(cases["scan-zeros_of_the_iteration"])
    assert_refused(cases["scan-frozen_zeros"])
    assert_dropped(cases["by_freeze"])
    assert_dropped(cases["two_callers"])


BY_FUSION = ("stacked-zeros_of_the_iteration", "mapped-zeros_of_the_iteration")
"""JAX gets these right; XLA loses the alias when it fuses the call with the stack (LD022)."""


@pytest.mark.nightly
def test_every_form_is_judged_in_every_loop(plain_python: Path, tmp_path: Path) -> None:
    cases = check_in_environment(plain_python, tmp_path, str(PROGRAMS / "refs_in_loops.py"))
    moved = {
        "zeros",
        "by_a_helper",
        "by_a_loop",
        "ones",
        "a_constant",
        "a_broadcast",
        "in_slices",
        "before_and_after",
        "by_two_kernels",
        "two_refs",
    }
    assert len(cases) == 42
    for name, case in cases.items():
        loop, _, form = name.partition("-")
        if form in ("frozen_zeros", "jitted_zeros") or name == "in_a_checkpoint-zeros":
            assert_refused(case)
        elif form in ("added_to_by_all_iterations", "added_to_by_a_helper"):
            assert case["outputs"] == {"value": "clobbered"}
            assert [finding["rule"] for finding in case["findings"]] == ["LD023"]
            assert case["disagreements"] == []
        elif name in BY_FUSION:
            assert {finding["rule"] for finding in case["findings"]} == {"LD022"}, name
        elif form in moved and loop not in ("forward_scan", "unrolled", "under_a_condition"):
            assert_moved(case)
        else:
            assert_right(case)


@pytest.mark.nightly
def test_every_checkpoint_policy_is_judged_in_every_place(plain_python: Path, tmp_path: Path) -> None:
    cases = check_in_environment(plain_python, tmp_path, str(PROGRAMS / "refs_computed_again.py"))
    right = {"without_what_is_left", "everything_saveable", "no_checkpoint", "its_name"}
    assert len(cases) == 30
    for name, case in cases.items():
        if name in right or name.endswith("-without"):
            assert_right(case)
        else:
            assert_dropped(case)
