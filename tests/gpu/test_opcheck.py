"""`ligerdiag.opcheck` on the GPU: runs of each kernel on canaries, against its code and what its call declares."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ligerdiag
from ligerdiag import OpcheckReport
from ligerdiag.model.opcheck_report import ProblemKind
from tests.device import opcheck_kernels as kernels

X = np.arange(kernels.SIZE, dtype=np.float32) % 16 + 1
INDEX = np.arange(kernels.SIZE, dtype=np.int32)[::-1].copy()


@pytest.fixture
def check(tmp_path: Path) -> Any:
    def check(function: Any, *operands: Any, **words: Any) -> OpcheckReport:
        return ligerdiag.opcheck(function, *operands, device="gpu", cache_directory=tmp_path, **words)

    return check


def read_runs(report: OpcheckReport) -> list[str]:
    (call,) = report.calls
    assert call.runs, report
    return [row.seen for row in call.rows]


@pytest.mark.parametrize(
    ("name", "kinds", "runs"),
    [
        ("reads_only", [], ["read", "all written"]),
        ("hidden", [ProblemKind.UNDECLARED_WRITE], ["read, wrote 256 of 256", "all written"]),
        ("hidden_argument", [ProblemKind.UNDECLARED_WRITE], ["read, wrote 256 of 256", "all written"]),
        ("declared", [], ["read, wrote 256 of 256", "all written", ""]),
        ("never_written", [ProblemKind.NEVER_WRITTEN], ["read", "all written", ""]),
        ("partial_writer", [ProblemKind.UNDECLARED_WRITE], ["read, wrote 128 of 256", "all written"]),
        ("partial_output", [ProblemKind.UNWRITTEN_OUTPUT], ["read", "wrote 128 of 256"]),
        ("atomic", [ProblemKind.UNDECLARED_WRITE], ["read", "read, wrote 4 of 4", "all written"]),
        ("zeroed", [], ["read", "all written"]),
        ("in_a_loop", [], ["read", "all written"]),
        ("pallas", [], ["read", "all written"]),
    ],
)
def test_runs_code_and_declaration_are_compared(
    name: str, kinds: list[ProblemKind], runs: list[str], check: Any
) -> None:
    report = check(getattr(kernels, name), X)
    assert [one.kind for one in report.problems] == kinds, report
    assert read_runs(report) == runs, report
    assert report.device
    assert report.ok == (not kinds), report
    guards = [note.partition(":")[0] for note in report.notes if "guard bytes" in note]
    kernel = report.calls[
        0
    ].kernel  # XLA copies the operand that an output aliases, and guards beside a copy show nothing
    is_aliased = name in ("declared", "never_written")
    assert guards == ([f"operand 0 of `{kernel}` had no guard bytes"] if is_aliased else []), report
    assert not any("not observed" in note for note in report.notes), report


def test_a_write_that_other_numbers_bring_about_is_seen(check: Any) -> None:
    """With the numbers of the function the kernel writes nothing; with negative ones it does."""
    report = check(kernels.conditional_writer, X)
    assert [one.kind for one in report.problems] == [ProblemKind.UNDECLARED_WRITE]
    assert "read, wrote 256 of 256" in read_runs(report)


def test_an_output_that_is_added_to_before_anything_is_stored_is_a_problem(check: Any) -> None:
    report = check(kernels.uninitialised, X)
    assert {one.kind for one in report.problems} == {ProblemKind.OLD_OUTPUT}
    evidence = " ".join(line for one in report.problems for line in one.evidence)
    is_unsteady = any("left different bytes" in note for note in report.notes)  # sums with a canary are rounded
    assert is_unsteady or "run: another canary" in evidence


def test_indices_stay_in_range(check: Any) -> None:
    report = check(kernels.indexed, X, INDEX)
    assert report.ok, report
    assert read_runs(report) == ["read", "read", "all written"]


def test_a_stated_write_is_no_problem(check: Any) -> None:
    report = check(kernels.hidden, X, effects={"double_in_place": {"writes": [0]}})
    assert report.ok, report


def test_the_gpu_is_used_by_default(tmp_path: Path) -> None:
    report = ligerdiag.opcheck(kernels.reads_only, X, cache_directory=tmp_path)
    assert report.device
    report.raise_if_wrong()
