"""Mosaic GPU kernels compile for a described GPU, and their payload shows which operands they overwrite."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.compile.lowering import compile_job
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from tests.compile.programs import mosaic_forms


@pytest.fixture(scope="module")
def cases(shared_cache: Path) -> dict[str, CaseReport]:
    options = api.CheckOptions(
        selectors=(mosaic_forms.__file__,), targets=("h100",), cache_directory=shared_cache, replay=False
    )
    return {case.id: case for case in api.check(options).cases}


@pytest.mark.parametrize("form", mosaic_forms.FORMS, ids=lambda form: form.__name__)
def test_every_overwritten_operand_is_found_and_no_other(
    form: Callable[..., None], cases: dict[str, CaseReport]
) -> None:
    """XLA puts the reader of an operand into one fusion with the operand, so the reader misses the kernel's write."""
    case, (written, _) = cases[form.__name__], mosaic_forms.FORMS[form]
    assert case.error == ""
    assert case.coverage.kernels == 1
    assert case.coverage.hidden_writes == len(written)
    operands = {name: verdict for name, verdict in case.outputs.items() if name != "out"}
    assert case.outputs["out"] is Verdict.FRESH
    assert operands == {name: Verdict.STALE if int(name.split()[1]) in written else Verdict.FRESH for name in operands}
    assert {finding.kernel for finding in case.findings} <= {form.__name__}


def test_the_assembler_names_its_newest_ptx_version() -> None:
    """The real ptxas does so too, in a message that Mosaic splits at the quotes."""
    program = Path(compile_job.__file__).with_name("assembler") / "bin" / "ptxas"
    words = [str(program), "--input-as-string", ".version 99.99"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    before, version, after = done.stderr.split("'")
    assert "Unsupported .version 99.99" in before
    assert version == "9.0"
    assert after.strip() == ""
