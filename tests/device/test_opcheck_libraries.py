"""`ligerdiag.opcheck` on kernels of CuTe DSL, cuTile, Gluon and Warp, where they are installed: their code, and Warp's on
the CPU. `tests/gpu/test_library_kernels.py` runs all of them on a GPU.
"""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ligerdiag
from ligerdiag import OpcheckReport
from ligerdiag.model.opcheck_report import ProblemKind
from tests.effects.library_programs import explain_missing

VECTOR = np.arange(64, dtype=np.float32) % 16 + 1
ROWS = (np.arange(128, dtype=np.float32) % 8 + 1).reshape(8, 16)
HIDDEN = [ProblemKind.UNDECLARED_WRITE]

pytestmark = pytest.mark.nightly


def check(library: str, function: str, operand: Any, folder: Path, device: str) -> OpcheckReport:
    if reason := explain_missing(library):
        pytest.skip(reason)
    programs: Any = importlib.import_module(f"tests.effects.library_programs.{library}_programs")
    report = ligerdiag.opcheck(getattr(programs, function), operand, device=device, cache_directory=folder)
    for call in report.calls:
        assert call.source is not None
        assert call.source.file.endswith(f"{library}_programs.py"), call.source
    return report


@pytest.mark.parametrize(
    ("library", "function", "operand", "kernel", "kinds", "code"),
    [
        ("cute", "hidden", VECTOR, "add_and_double_kernel", [], ["unknown", "unknown"]),
        ("cute", "declared", VECTOR, "double_kernel", [], ["unknown", ""]),
        ("cute", "declared_both", VECTOR, "add_and_double_kernel", [], ["unknown", "", "unknown"]),
        ("cutile", "hidden", VECTOR, "sine_and_double", HIDDEN, ["read, written", "written, perhaps not all"]),
        ("cutile", "declared", VECTOR, "sine_and_double", [], ["read, written", "", "written, perhaps not all"]),
        ("gluon", "hidden", VECTOR, "add_and_double", HIDDEN, ["read, written", "all written"]),
        ("gluon", "declared", VECTOR, "double", [], ["read, written", ""]),
        ("gluon", "declared_both", VECTOR, "add_and_double", [], ["read, written", "all written", ""]),
        ("warp", "hidden", VECTOR, "add_and_double", HIDDEN, ["read, written", "written, perhaps not all"]),
        ("warp", "declared_double", VECTOR, "add_and_double", [], ["read, written", "", "written, perhaps not all"]),
    ],
)
def test_the_code_of_a_library_s_kernel_is_read(
    library: str, function: str, operand: Any, kernel: str, kinds: list[ProblemKind], code: list[str], tmp_path: Path
) -> None:
    report = check(library, function, operand, tmp_path, "none")
    (call,) = report.calls
    assert (call.kernel, [row.code for row in call.rows]) == (kernel, code)
    assert [one.kind for one in report.problems] == kinds
    assert bool(report.not_covered) == (library == "cute" and not function.startswith("declared")), report


@pytest.mark.parametrize(
    ("function", "operand", "kinds", "runs"),
    [
        ("hidden", VECTOR, HIDDEN, ["read, wrote 64 of 64", "all written"]),
        ("hidden_total", ROWS, HIDDEN, ["read", "not seen to be read", "read, wrote 8 of 8", "all written"]),
        ("declared", ROWS, [], ["read", "not seen to be read", "read, wrote 8 of 8", "", "all written"]),
        ("declared_double", VECTOR, [], ["read, wrote 64 of 64", "", "all written"]),
    ],
)
def test_kernels_of_warp_run_on_the_cpu(
    function: str, operand: Any, kinds: list[ProblemKind], runs: list[str], tmp_path: Path
) -> None:
    report = check("warp", function, operand, tmp_path, "cpu")
    (call,) = report.calls
    assert [row.seen for row in call.rows] == runs, report
    assert [one.kind for one in report.problems] == kinds, report
