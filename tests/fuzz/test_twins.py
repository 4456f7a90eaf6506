"""Programs beside their own formulas without kernels: XLA merges equal values of both, and a kernel overwrites one."""

from pathlib import Path

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from tools.orders import render_programs

MISSED = (232, "v11")
"""A program's seed and an output.

One operand of a product is the overwritten value, rearranged; the fusion recomputes the other one from the contents
before the kernel. The formulas have that value too, so that no carrier is left.
"""


def test_an_operand_that_its_reader_recomputes_misses_the_write(tmp_path: Path, shared_cache: Path) -> None:
    seed, name = MISSED
    path = tmp_path / "twins.py"
    path.write_text(render_programs([seed], twins=True), encoding="utf-8")
    (case,) = api.check(api.CheckOptions(selectors=(str(path),), cache_directory=shared_cache)).cases
    assert case.outputs[name] is Verdict.STALE
    assert case.disagreements == ()
