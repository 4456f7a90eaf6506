"""Three reports of the benchmark, compiled and judged; and the page that shows all of them."""

import random
from pathlib import Path

import libcst as cst
import pytest

from benchmark.judging import RULES, Cured, Outcome, Witness, judge_bad, judge_cured
from benchmark.renaming import rename_module, rename_program
from benchmark.report import FOLDER, Entry, Kind, list_names, load_entry, read_marked_instructions
from benchmark.rows import ROWS, compute_digest, load_rows
from benchmark.table import PAGE, load_page
from ligerdiag.api.checking import check
from ligerdiag.model.case import Case
from ligerdiag.model.report import CaseReport
from ligerdiag.rules.registry import RULES as ALL_RULES
from ligerdiag.run_options import CheckOptions

CHOSEN = {"warp_553": Witness.STATIC, "jax_20227": Witness.REPLAY, "jax_3829": Witness.STATIC}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaseReport]:
    """The reports on the programs of `CHOSEN`, by the ids of their cases."""
    files = tuple(str(FOLDER / f"{name}.py") for name in CHOSEN)
    options = CheckOptions(selectors=files, cache_directory=tmp_path_factory.mktemp("cache"), jobs=1)
    return {report.id: report for report in check(options).cases}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_report_is_found_and_its_cured_twin_is_clean(name: str, reports: dict[str, CaseReport]) -> None:
    entry = load_entry(name)
    assert isinstance(entry.bad, Case)
    assert isinstance(entry.cured, Case)
    said = judge_bad(entry, reports[entry.bad.id])
    assert said.outcome is Outcome.FOUND
    assert said.witnesses[CHOSEN[name]] == Outcome.FOUND
    assert judge_cured(reports[entry.cured.id]) is Cured.CLEAN


def test_the_cured_program_in_place_of_the_bad_one_is_missed(reports: dict[str, CaseReport]) -> None:
    """Otherwise everything would count as found."""
    entry = load_entry("warp_553")
    assert isinstance(entry.cured, Case)
    assert judge_bad(entry, reports[entry.cured.id]).outcome is Outcome.MISSED


def test_every_file_is_complete_and_has_a_current_row() -> None:
    rows = load_rows(ROWS)
    entries = [load_entry(name) for name in list_names()]
    old = [
        entry.name for entry in entries if entry.name not in rows or rows[entry.name].digest != compute_digest(entry)
    ]
    assert old == [], "run `python -m benchmark.run`, then `python -m benchmark.table`"
    assert set(rows) == set(list_names())


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == load_page(), "run `python -m benchmark.table`"


def test_each_miss_is_explained() -> None:
    rows = load_rows(ROWS)
    entries = [load_entry(name) for name in list_names()]
    assert [one.name for one in entries if _is_unexplained(one, rows[one.name].ours)] == []


def _is_unexplained(entry: Entry, ours: str) -> bool:
    return ours != Outcome.FOUND and not (entry.report.unreachable or entry.report.missed)


def test_the_rules_of_each_kind_exist() -> None:
    assert set(RULES) == set(Kind)
    assert {rule for rules in RULES.values() for rule in rules} <= {rule.id for rule in ALL_RULES}


def test_renaming_changes_every_name_of_the_program_and_no_mark() -> None:
    text = (FOLDER / "jax_3829.py").read_text()
    renamed = rename_program(text, "jax_3829", random.Random(0))
    for name in ("scale_kernel", "gradient_ptr", "factor", "step_with_output", '"step"', '"jax_3829"', "SIZE"):
        assert name in text
        assert name not in renamed.partition('"""\n')[2]
    assert "# at: call" in renamed
    assert "REPORT = Report(" in renamed
    cst.parse_module(renamed)


def test_a_mark_in_a_module_names_its_instruction(tmp_path: Path) -> None:
    text = "ENTRY %main {\n  %x = f32[8]{0} parameter(0)\n  ROOT %fusion.1 = f32[8]{0} negate(%x) // at: here\n}\n"
    file = tmp_path / "module.hlo"
    file.write_text(text)
    assert read_marked_instructions(file) == {"fusion.1": "here"}
    renamed = rename_module(text, random.Random(0))
    assert "%x" not in renamed
    assert renamed.count(renamed.split("(%")[1].split(")")[0]) == 2
