"""Whole models in every mode of their kernels: numbers do not contradict the schedule's verdict on any output.

An output that a schedule calls wrong may be right by luck: a term is small, a rotation keeps the length of a vector, a
maximum stays in place. So a right output that is called wrong counts only if it has all its digits and a wrong one
would be far away.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.modes import Mode
from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Attribution, ReplayState, Verdict
from ligerdiag.model.report import CaseReport
from tests.models.rows import CASES, MODELS

ROWS = Path(__file__).with_name("rows.py")
DAILY = {"normed_queries": (Mode.TRIVIAL, Mode.ALIASED), "decoding": tuple(Mode)}
"""Models and modes whose rows on one device are judged every day; the nightly run judges all rows."""
CALLED_RIGHT, CALLED_WRONG = (Verdict.FRESH, Verdict.LATENT), (Verdict.STALE, Verdict.CLOBBERED)
MARGIN = 10.0
"""How many times the tolerance roundings can explain."""


def find_contradictions(case: CaseReport) -> Iterator[str]:
    assert case.replay is not None
    for name, verdict in case.outputs.items():
        numbers = case.replay.outputs[name]
        is_wrong = numbers.attribution in {Attribution.STALE, Attribution.NEITHER}
        is_right = numbers.error * MARGIN <= numbers.tolerance and numbers.distance >= MARGIN * numbers.tolerance
        if verdict in CALLED_RIGHT and is_wrong:
            yield f"{case.id}: {name} is called {verdict.value}, its error is {numbers.error:.1e}"
        if verdict in CALLED_WRONG and is_right:
            yield f"{case.id}: {name} is called {verdict.value}, its error is {numbers.error:.1e}"


def list_rows() -> Iterator[object]:
    for model in MODELS:
        name = model.__name__
        for kind in ("one", "data", "data and weights"):
            yield pytest.param(name, kind, tuple(Mode), id=f"{name}-{kind}", marks=pytest.mark.nightly)
        if name in DAILY:
            yield pytest.param(name, "one", DAILY[name], id=f"{name}-day")


@pytest.mark.parametrize(("model", "kind", "modes"), tuple(list_rows()))
def test_numbers_do_not_contradict_the_schedule(
    model: str, kind: str, modes: tuple[Mode, ...], shared_cache: Path
) -> None:
    chosen = [
        case.id
        for case in CASES
        if case.name == model
        and case.params[:-1] == (() if kind == "one" else (kind,))
        and case.id.removesuffix("]").endswith(modes)
    ]
    assert len(chosen) == len(modes)
    selectors = tuple(f"{ROWS}::{name}" for name in chosen)
    cases = check(CheckOptions(selectors=selectors, cache_directory=shared_cache)).cases
    assert {case.error for case in cases} == {""}
    assert {case.replay.state for case in cases if case.replay is not None} == {ReplayState.DONE}
    assert [found for case in cases for found in find_contradictions(case)] == []
    declared = [case for case in cases if case.id.removesuffix("]").endswith((Mode.ALIASED, Mode.OUT_OF_PLACE))]
    assert {verdict for case in declared for verdict in case.outputs.values()} == {Verdict.FRESH}
