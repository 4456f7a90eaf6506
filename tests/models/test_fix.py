"""`fix` cures every model whose kernels overwrite operands behind XLA's back, by the change that a person would make."""

from pathlib import Path

import pytest

from kernels.modes import Mode
from ligerdiag.api import CheckOptions
from ligerdiag.fix.cure_search import FixOptions, find_fixes
from ligerdiag.fix.records import Proof
from ligerdiag.model.findings import Verdict
from tests.models.rows import MODELS

ROWS = Path(__file__).with_name("rows.py")
DAILY = {"decoding"}
"""The model that is cured every day; the nightly run cures all, with every cure tried."""


def list_models() -> list[object]:
    return [
        pytest.param(one.__name__, marks=() if one.__name__ in DAILY else pytest.mark.nightly, id=one.__name__)
        for one in MODELS
    ]


@pytest.mark.parametrize("model", list_models())
def test_a_model_gets_its_kernels_in_a_mode_that_xla_knows_of(model: str, shared_cache: Path) -> None:
    checked = CheckOptions(selectors=(f"{ROWS}::{model}[{Mode.HIDDEN}]",), cache_directory=shared_cache)
    (answer,) = find_fixes(FixOptions(check=checked, cures=("mode",) if model in DAILY else ()))
    assert answer.best is not None
    assert (answer.best.cure, answer.best.proof, answer.best.left) == ("mode", Proof.PROVED, ())
    assert {one for outputs in answer.best.verdicts.values() for one in outputs.values()} == {Verdict.FRESH}
    changed = [one for one in answer.best.diff.splitlines() if one[:1] in "+-" and one[:3] not in ("+++", "---")]
    assert changed == [
        "-    return model(fuse(mode), *arguments)",
        "+    return model(fuse(Mode.ALIASED), *arguments)",
    ]
