"""`ligerdiag.opcheck` without a device: the kernels' code against what their calls declare."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ligerdiag
from ligerdiag import OpcheckReport
from ligerdiag.errors import CaseError, InputError
from ligerdiag.model.opcheck_report import ProblemKind
from tests.device import opcheck_kernels as kernels

X = np.arange(kernels.SIZE, dtype=np.float32) + 1


def check(function: Any, *operands: Any, cache: Path, **words: Any) -> OpcheckReport:
    return ligerdiag.opcheck(function, *operands, device="none", cache_directory=cache, **words)


def every_call(x: Any, index: Any) -> Any:
    """Makes the calls of all functions, so that one worker reads all kernels."""
    functions = (
        kernels.hidden,
        kernels.declared,
        kernels.never_written,
        kernels.partial_writer,
        kernels.conditional_writer,
        kernels.partial_output,
        kernels.atomic,
        kernels.uninitialised,
        kernels.zeroed,
        kernels.hidden_argument,
        kernels.pallas,
        kernels.in_a_loop,
    )
    return [function(x) for function in functions], kernels.indexed(x, index)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> OpcheckReport:
    index = np.arange(kernels.SIZE, dtype=np.int32)
    return check(every_call, X, index, cache=tmp_path_factory.mktemp("cache"))


def test_the_code_of_each_kernel_shows_what_its_call_leaves_out(report: OpcheckReport) -> None:
    assert [(one.kernel, one.kind) for one in report.problems] == [
        ("double_in_place", ProblemKind.UNDECLARED_WRITE),
        ("declared_only", ProblemKind.NEVER_WRITTEN),
        ("clear_even", ProblemKind.UNDECLARED_WRITE),
        ("clear_negative", ProblemKind.UNDECLARED_WRITE),
        ("copy", ProblemKind.UNWRITTEN_OUTPUT),
        ("count_by_rest", ProblemKind.UNDECLARED_WRITE),
        ("add_up", ProblemKind.OLD_OUTPUT),
        ("double_in_place", ProblemKind.UNDECLARED_WRITE),
    ]
    assert (report.ok, report.not_covered, report.device) == (False, (), "")


def test_each_call_has_a_row_for_each_buffer(report: OpcheckReport) -> None:
    rows = {call.kernel: [(row.declared, row.code) for row in call.rows] for call in report.calls}
    assert rows["double_declared"] == [
        ("written, output 1", "read, written"),
        ("written", "all written"),
        ("operand 0", ""),
    ]
    assert rows["gather"] == [("not written", "read"), ("not written", "read"), ("written", "all written")]
    assert rows["_double_ref"] == [("not written", "read"), ("written", "all written")]
    assert len(report.calls) == 13


def test_the_text_says_where_and_that_nothing_ran(report: OpcheckReport) -> None:
    text = str(report)
    assert "error[undeclared write]: `double_in_place` writes operand 0, `f32[256]`, and no output aliases it" in text
    assert "tests/device/opcheck_kernels.py" in text
    assert "note: no call was run, because `device` is `none`: the kernels' code alone was read" in text
    assert text.endswith("wrong: 8 problems")
    assert repr(report).startswith(
        "<OpcheckReport of `every_call`: undeclared write: `double_in_place` writes operand 0"
    )
    assert "<pre>" in report._repr_html_()


def test_a_call_that_declares_its_write_is_ok(tmp_path: Path) -> None:
    report = check(kernels.declared, X, cache=tmp_path)
    report.raise_if_wrong()
    assert report.ok


def test_a_stated_write_is_no_problem(tmp_path: Path) -> None:
    effects = {"double_in_place": {"writes": [0]}}
    report = check(kernels.hidden, X, cache=tmp_path, effects=effects)
    assert report.ok, report
    assert report.calls[0].rows[0].declared == "written, in `effects` alone"


def test_a_statement_that_the_code_contradicts_is_a_problem(tmp_path: Path) -> None:
    effects = {"copy": {"writes": [0], "reads": []}}
    report = check(kernels.reads_only, X, cache=tmp_path, effects=effects)
    assert [one.kind for one in report.problems] == [ProblemKind.NEVER_WRITTEN, ProblemKind.UNDECLARED_READ]


def test_a_call_that_jax_drops_is_a_problem(tmp_path: Path) -> None:
    report = check(kernels.dropped, X, cache=tmp_path)
    assert [one.kind for one in report.problems] == [ProblemKind.UNDECLARED_WRITE, ProblemKind.DROPPED]


@pytest.mark.parametrize("device", ["tpu", "gpu"])
def test_a_device_that_is_not_there_is_an_input_error(device: str, tmp_path: Path) -> None:
    if device == "gpu" and Path("/dev/nvidia0").exists():
        pytest.skip("there is an NVIDIA GPU on this machine")
    with pytest.raises(InputError, match="device"):
        ligerdiag.opcheck(kernels.reads_only, X, device=device, cache_directory=tmp_path)


def test_a_function_that_raises_is_a_case_error(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="raises"):
        check(raising, X, cache=tmp_path)


def raising(x: Any) -> Any:
    raise ValueError(f"no kernel for {x.shape}")
