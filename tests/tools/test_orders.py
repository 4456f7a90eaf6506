"""`python -m tools.orders` keeps its rows, and names missed outputs and needlessly latent ones."""

import ast
from pathlib import Path

import pytest
import typer

from tools.fuzz.processes import append_row
from tools.orders import TWINS, OrdersRow, describe, load_rows, render_programs, run

MISSED = OrdersRow(
    seed=3,
    outputs={"v": ("fresh", "fresh"), "w": ("latent", "fresh"), "u": ("stale", "stale")},
    tried=20,
    changed={"v": ("kernels last (1)", 0.5), "u": ("random (4)", 1.0)},
)
NOT_TRIED = OrdersRow(seed=4, outputs={"v": ("latent", "none")}, unjudged="a fft")


def test_a_fresh_output_that_changes_is_missed_and_a_latent_one_that_stays_is_cautious() -> None:
    lines = list(describe([MISSED, NOT_TRIED]))
    assert lines[:2] == ["MISSED 3 v: fresh, and 0.5 from itself with kernels last (1)", "cautious 3 w"]
    assert "1 fresh outputs change" in lines
    assert "1 of 1 latent outputs stay" in lines
    assert lines[-1] == "not tried, 1: a fft"


def test_rows_are_kept_and_a_truncated_line_is_skipped(tmp_path: Path) -> None:
    for row in (MISSED, NOT_TRIED):
        append_row(tmp_path / "orders.jsonl", row)
    with (tmp_path / "orders.jsonl").open("a") as file:
        file.write('{"seed": 5, "outp')
    assert load_rows(tmp_path) == {3: MISSED, 4: NOT_TRIED}


def test_rows_of_programs_with_twins_are_kept_apart(tmp_path: Path) -> None:
    append_row(tmp_path / "orders.jsonl", MISSED)
    with pytest.raises(typer.BadParameter):
        run(tmp_path, twins=True)
    (tmp_path / TWINS).touch()
    with pytest.raises(typer.BadParameter):
        run(tmp_path)


def test_a_program_with_its_formulas_is_a_file_that_parses() -> None:
    plain, twins = (render_programs([1], twins=one) for one in (False, True))
    assert "reference=" not in plain
    assert "beside_formulas(case.function, case.reference)" in twins
    ast.parse(twins)
