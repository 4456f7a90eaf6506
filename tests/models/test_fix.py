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
"""The model that is cured every day; the nightly run cures all on one device, with every cure tried, and on two."""
KINDS = {"one": "", "data": "data-", "data and weights": "data and weights-"}
"""From the arrays that are split over two devices to the beginning of a case's parameters."""


def list_models() -> list[object]:
    names = [one.__name__ for one in MODELS]
    return [
        pytest.param(
            name,
            kind,
            marks=() if name in DAILY and kind == "one" else pytest.mark.nightly,
            id=f"{name}-{kind}",
        )
        for name in names
        for kind in KINDS
    ]


@pytest.mark.parametrize(("model", "kind"), list_models())
def test_a_model_gets_its_kernels_in_a_mode_that_xla_knows_of(model: str, kind: str, shared_cache: Path) -> None:
    checked = CheckOptions(selectors=(f"{ROWS}::{model}[{KINDS[kind]}{Mode.HIDDEN}]",), cache_directory=shared_cache)
    cures = ("mode",) if model in DAILY or kind != "one" else ()
    (answer,) = find_fixes(FixOptions(check=checked, cures=cures, other_cases=0))
    assert answer.best is not None
    assert (answer.best.cure, answer.best.proof, answer.best.left) == ("mode", Proof.PROVED, ())
    assert {one for outputs in answer.best.verdicts.values() for one in outputs.values()} == {Verdict.FRESH}
    changed = [one for one in answer.best.diff.splitlines() if one[:1] in "+-" and one[:3] not in ("+++", "---")]
    declaring = (Mode.ALIASED,) if kind == "one" else (Mode.ALIASED, Mode.OUT_OF_PLACE)  # the cheaper one is offered
    assert changed in [
        ["-    return model(fuse(mode), *arguments)", f"+    return model(fuse(Mode.{one.name}), *arguments)"]
        for one in declaring
    ]
