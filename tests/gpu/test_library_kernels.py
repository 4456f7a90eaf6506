"""Kernels of CuTe DSL, cuTile, Gluon and Warp on the GPU: their code, their runs, the verdicts and the results agree."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import ligerdiag
from ligerdiag import OpcheckReport, api
from ligerdiag.model.opcheck_report import ProblemKind
from tests.effects.library_programs import PROGRAMS, explain_missing, plain

ROOT = Path(__file__).parents[2]
VECTOR = np.arange(64, dtype=np.float32) % 16 + 1
ROWS = (np.arange(128, dtype=np.float32) % 8 + 1).reshape(8, 16)
PLACES = np.arange(64, dtype=np.int32)[::-1].copy()
HIDDEN = [ProblemKind.UNDECLARED_WRITE]
ERROR = 0.05
"""Relative error in norm up to which an output is right: old contents are farther away, and roundings far nearer."""

type Operands = tuple[np.ndarray[Any, Any], ...]


@pytest.fixture(scope="module", autouse=True)
def plain_results_come_from_the_cpu() -> None:
    """The workers have the GPU's memory, and the process of the tests needs none of it."""
    jax.config.update("jax_platforms", "cpu")


def import_programs(library: str) -> Any:
    """Returns the module with the programs of a library; skips the test if the library is not installed."""
    reason = explain_missing(library)
    if reason:
        pytest.skip(reason)
    return importlib.import_module(f"tests.effects.library_programs.{library}_programs")


def list_written(report: OpcheckReport) -> tuple[list[str], list[str]]:
    """Returns the operands of the only call that its code may write, and those that a run wrote."""
    (call,) = report.calls
    assert call.runs, report
    operands = [row for row in call.rows if row.name.startswith("operand")]
    return [row.name for row in operands if "written" in row.code], [
        row.name for row in operands if "wrote" in row.seen
    ]


@pytest.mark.parametrize(
    ("library", "function", "operands", "kinds", "written"),
    [
        ("cute", "hidden", (VECTOR,), HIDDEN, ["operand 0"]),
        ("cute", "declared", (VECTOR,), [], ["operand 0"]),
        ("cute", "declared_both", (VECTOR,), [], ["operand 0"]),
        ("cute", "two_kernels", (VECTOR,), HIDDEN, ["operand 0"]),
        ("cutile", "hidden", (VECTOR,), HIDDEN, ["operand 0"]),
        ("cutile", "declared", (VECTOR,), [], ["operand 0"]),
        ("cutile", "by_index", (PLACES, VECTOR), HIDDEN, ["operand 2"]),
        ("gluon", "hidden", (VECTOR,), HIDDEN, ["operand 0"]),
        ("gluon", "declared", (VECTOR,), [], ["operand 0"]),
        ("gluon", "declared_both", (VECTOR,), [], ["operand 0"]),
        ("warp", "hidden", (VECTOR,), HIDDEN, ["operand 0"]),
        ("warp", "hidden_total", (ROWS,), HIDDEN, ["operand 2"]),
        ("warp", "declared", (ROWS,), [], ["operand 2"]),
        ("warp", "declared_double", (VECTOR,), [], ["operand 0"]),
    ],
)
def test_runs_agree_with_the_code(
    library: str, function: str, operands: Operands, kinds: list[ProblemKind], written: list[str], tmp_path: Path
) -> None:
    programs = import_programs(library)
    report = ligerdiag.opcheck(getattr(programs, function), *operands, device="gpu", cache_directory=tmp_path)
    assert [one.kind for one in report.problems] == kinds, report
    assert list_written(report) == ([] if library == "cute" else written, written), report
    assert not any("not observed" in note for note in report.notes), report


RUNS: tuple[tuple[str, str, str, Operands, Callable[..., Any], dict[str, Callable[..., Any]]], ...] = (
    ("cute", "told", "hidden", (VECTOR,), plain.hidden, {"sum": plain.old_sum}),
    ("cute", "declared", "declared", (VECTOR,), plain.doubled, {}),
    ("cute", "declared_both", "declared_both", (VECTOR,), plain.declared, {}),
    ("cutile", "hidden", "hidden", (VECTOR,), plain.sine_hidden, {"sum": plain.old_sum}),
    ("cutile", "declared", "declared", (VECTOR,), plain.sine_declared, {}),
    ("gluon", "hidden", "hidden", (VECTOR,), plain.hidden, {"sum": plain.old_sum}),
    ("gluon", "declared", "declared", (VECTOR,), plain.doubled, {}),
    ("gluon", "declared_both", "declared_both", (VECTOR,), plain.declared, {}),
    ("warp", "hidden", "hidden", (VECTOR,), plain.hidden, {"sum": plain.old_sum}),
    ("warp", "hidden_total", "hidden_total", (ROWS,), plain.rows_hidden, {"total": plain.old_total}),
    ("warp", "declared", "declared", (ROWS,), plain.rows_declared, {}),
    ("warp", "declared_double", "declared_double", (VECTOR,), plain.declared, {}),
)
"""Library, case, function, arguments, what is intended, and each stale output if the schedule reads old contents."""
IDS = [f"{library}-{case}" for library, case, *_ in RUNS]


@pytest.mark.parametrize(("library", "case", "function", "operands", "intended", "old"), RUNS, ids=IDS)
def test_an_output_is_wrong_on_the_device_exactly_if_its_verdict_says_so(
    library: str, case: str, function: str, operands: Operands, intended: Any, old: Any, shared_cache: Path
) -> None:
    import_programs(library)
    selectors = (f"{PROGRAMS / library}_programs.py::{case}",)
    options = api.CheckOptions(selectors=selectors, cache_directory=shared_cache, device=True, replay=False)
    (found,) = api.check(options).cases
    assert found.device is not None
    assert found.device.error == ""
    assert set(found.device.verdicts) == set(intended(*operands))
    stale = {name for name, verdict in found.device.verdicts.items() if verdict == "stale"}
    wrong = {name for name, output in found.device.outputs.items() if not all(error < ERROR for error in output.errors)}
    assert set(found.device.verdicts.values()) <= {"fresh", "stale"}
    assert wrong == stale == set(old), (function, found.device)


@pytest.mark.parametrize(("library", "case", "function", "operands", "intended", "old"), RUNS, ids=IDS)
def test_a_stale_output_has_the_numbers_from_before_the_write(
    library: str, case: str, function: str, operands: Operands, intended: Any, old: Any, tmp_path: Path
) -> None:
    import_programs(library)
    given, results = tmp_path / "given.npz", tmp_path / "results.npz"
    np.savez(given, *operands)
    environment = {**os.environ, "JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.gpu.library_run", library, function, given, results],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    expected = {**intended(*operands), **{name: make(*operands) for name, make in old.items()}}
    with np.load(results) as found:
        assert set(found.files) == set(expected), case
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], np.asarray(values), rtol=1e-4, atol=1e-5, err_msg=name)
