"""A user's own file, with kernels that ligerdiag has never seen and that nobody has annotated."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.rules.programs.ld014_unknown_effect import FORGED_POINTER
from ligerdiag.rules.schedules.ld007_vanished_call import NO_OUTPUTS
from tests.api.conftest import Check, RunCli

KERNEL = """\
import jax
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case

@triton.jit
def running_maximum(row_ptr, last_ptr, N: tl.constexpr):
    best = tl.load(row_ptr)
    for n in range(1, N):
        best = tl.maximum(best, tl.load(row_ptr + n))
        tl.store(row_ptr + n, best)
    tl.store(last_ptr, best)

"""
CASE = """\
def program(x, y):
    row = x * y
    last = jax_triton.triton_call(row, kernel=running_maximum, out_shape=jax.ShapeDtypeStruct((), "float32"), grid=1, N=8)
    return {"last": last, "row": row + y}

CASE = Case(
    name="maximum",
    function=program,
    args=(Arg(shape=(8,)), Arg(shape=(8,))),
)
"""


HARMLESS = KERNEL.replace("tl.store(row_ptr + n, best)", "tl.load(row_ptr + n)") + CASE
FILES = {
    "maximum.py": KERNEL + CASE,
    "harmless.py": HARMLESS.replace('name="maximum"', 'name="harmless"'),
    "unmet.py": HARMLESS.replace('name="maximum"', 'name="unmet", expected="hazard"'),
    "vanishes.py": NO_OUTPUTS.code,
    "forges.py": FORGED_POINTER.code,
    "same_one.py": KERNEL + CASE.replace('name="maximum"', 'name="same"'),
    "same_two.py": KERNEL
    + CASE.replace('name="maximum"', 'name="same"').replace('"row": row + y', '"other": last * 2'),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mine")
    for name, text in FILES.items():
        (path / name).write_text(text)
    return path


@pytest.fixture(scope="module")
def reports(folder: Path, check: Check) -> tuple[CaseReport, ...]:
    return check(folder).cases


@pytest.fixture(scope="module")
def judged(reports: tuple[CaseReport, ...]) -> Mapping[str, CaseReport]:
    return {case.id: case for case in reports}


def find_line(file: str, number: int) -> str:
    return FILES[file].splitlines()[number - 1].strip()


def test_a_case_of_ten_lines_gets_its_verdict(judged: Mapping[str, CaseReport]) -> None:
    assert len(CASE.splitlines()) == 10
    case = judged["maximum"]
    assert case.status is Status.FINDINGS
    assert case.outputs == {"last": Verdict.FRESH, "row": Verdict.STALE}
    (stale,) = (finding for finding in case.findings if finding.outputs == ("row",))
    assert stale.kernel == "running_maximum"
    assert stale.source is not None
    assert "triton_call(" in find_line("maximum.py", stale.source.line)
    assert stale.reader is not None
    assert stale.reader.line is not None
    assert find_line("maximum.py", stale.reader.line.line) == 'return {"last": last, "row": row + y}'


def test_a_kernels_writes_are_read_from_the_kernel_and_not_from_the_case(judged: Mapping[str, CaseReport]) -> None:
    case = judged["harmless"]
    assert case.status is Status.NOTHING
    assert set(case.outputs.values()) == {Verdict.FRESH}
    assert (case.coverage.kernels, case.coverage.hidden_writes) == (1, 0)


def test_an_unmet_expectation_fails_although_the_program_is_right(
    folder: Path, judged: Mapping[str, CaseReport], run_cli: RunCli
) -> None:
    assert judged["unmet"].status is Status.UNEXPECTED
    outcome = run_cli("check", "unmet.py", cwd=folder)
    assert outcome.code == 1
    assert "expected a stale, clobbered or latent output but every output is fresh" in outcome.out


def test_the_command_line_names_the_finding_and_its_place(
    folder: Path, judged: Mapping[str, CaseReport], run_cli: RunCli
) -> None:
    number = next(n for n, line in enumerate(FILES["maximum.py"].splitlines(), 1) if "row + y" in line)
    call = next(n for n, line in enumerate(FILES["maximum.py"].splitlines(), 1) if "triton_call(" in line)
    assert judged
    outcome = run_cli("check", "maximum.py", cwd=folder)
    assert outcome.code == 1
    assert "last fresh · row STALE" in outcome.out
    assert f"maximum.py:{call}\n   | last = jax_triton.triton_call(row, kernel=running_maximum" in outcome.out
    assert f"(maximum.py:{number})" in outcome.out


def test_a_kernel_without_outputs_is_reported_as_vanished(
    folder: Path, judged: Mapping[str, CaseReport], run_cli: RunCli
) -> None:
    case = judged["vanishes"]
    assert case.status is Status.FINDINGS
    assert case.outputs == {"scaled": Verdict.STALE}
    found = {finding.rule: finding for finding in case.findings}
    assert sorted(finding.rule for finding in case.findings) == ["LD002", "LD006", "LD007"]
    assert found["LD002"].outputs == ("scaled",)
    for finding in found.values():
        assert finding.kernel == "scale_kernel"
        assert finding.source is not None
        assert "kernel=scale_kernel" in find_line("vanishes.py", finding.source.line)
    assert run_cli("check", "vanishes.py", cwd=folder).code == 1


def test_a_kernel_that_cannot_be_followed_is_unknown_and_never_clean(
    folder: Path, judged: Mapping[str, CaseReport], run_cli: RunCli
) -> None:
    case = judged["forges"]
    assert case.status is Status.INCONCLUSIVE
    assert set(case.outputs.values()) == {Verdict.UNKNOWN}
    assert {finding.rule for finding in case.findings} == {"LD014"}
    assert run_cli("check", "--strict", "--fail-on", "never", "forges.py", cwd=folder).code == 4


def test_cases_with_the_same_id_in_two_files_are_both_reported(reports: tuple[CaseReport, ...]) -> None:
    outputs = [set(case.outputs) for case in reports if case.id == "same"]
    assert outputs == [{"last", "row"}, {"last", "other"}]
