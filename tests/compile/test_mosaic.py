"""Mosaic GPU kernels compile for a GPU that is not there, are unknown under names of their own, and can be declared."""

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


@pytest.mark.parametrize(("name", "kernel"), [("multiply", "anonymous_"), ("attend", "entry")])
def test_a_kernel_is_unknown_under_its_own_name(name: str, kernel: str, cases: dict[str, CaseReport]) -> None:
    case = cases[name]
    assert not case.error
    assert set(case.outputs.values()) == {Verdict.UNKNOWN}
    (finding,) = case.findings
    assert finding.rule == "LD014"
    assert finding.kernel.startswith(kernel)


def test_what_is_declared_of_a_kernel_holds_for_its_name_alone(cases: dict[str, CaseReport]) -> None:
    assert cases["declared"].outputs == {"out": Verdict.UNKNOWN}
    assert cases["named"].outputs == {"out": Verdict.FRESH}


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
