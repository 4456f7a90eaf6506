"""Mosaic GPU kernels compile for a GPU that is not there, and what they overwrite is found in their payload."""

import subprocess
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.compile.lowering import compile_job
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from tests.compile.programs import mosaic


@pytest.fixture(scope="module")
def cases(shared_cache: Path) -> dict[str, CaseReport]:
    options = api.CheckOptions(
        selectors=(mosaic.__file__,), targets=("h100",), cache_directory=shared_cache, replay=False
    )
    return {case.id: case for case in api.check(options).cases}


@pytest.mark.parametrize("name", ["multiply", "attend"])
def test_what_jaxs_own_kernels_read_is_fresh(name: str, cases: dict[str, CaseReport]) -> None:
    case = cases[name]
    assert not case.error
    assert case.coverage.kernels == 1
    assert set(case.outputs.values()) == {Verdict.FRESH}
    assert case.findings == ()


@pytest.mark.parametrize("name", ["stores", "copies"])
def test_a_kernel_that_overwrites_its_operand_is_seen(name: str, cases: dict[str, CaseReport]) -> None:
    """The product reads what was there before: XLA computes it with the operand, in one fusion."""
    case = cases[name]
    assert not case.error
    assert case.outputs == {"out": Verdict.FRESH, "read": Verdict.STALE}
    assert "LD006" in {finding.rule for finding in case.findings}
    assert {finding.kernel for finding in case.findings} == {"in_place"}


def test_the_assembler_says_which_ptx_is_the_newest() -> None:
    """As the real one does, whose message Mosaic takes apart at the quotes."""
    program = Path(compile_job.__file__).with_name("assembler") / "bin" / "ptxas"
    words = [str(program), "--input-as-string", ".version 99.99"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    before, version, after = done.stderr.split("'")
    assert "Unsupported .version 99.99" in before
    assert version == "9.0"
    assert after.strip() == ""
