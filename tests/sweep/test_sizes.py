"""A size is a number that a file of cases asks for; its value in a sweep decides the program, the key and the artifact."""

import json
from pathlib import Path

import pytest

from ligerdiag import api, size
from ligerdiag.artifacts.cache import Cache
from ligerdiag.errors import InputError
from ligerdiag.model.case import SIZES
from ligerdiag.sweep.campaign import SweepOptions, SweepReport, run_sweep
from ligerdiag.sweep.grid import SweepColumn, SweepPlan, load_grid, plan_sweep
from ligerdiag.sweep.sweep_table import name_column, read_parquet, render_page, render_parquet

ASKING = """
from ligerdiag import Arg, Case, size
TOKENS = size("tokens", 8)
CASES = [Case(name="step", function=lambda x: x[:4], args=(Arg(shape=(TOKENS,)),))]
if TOKENS > 100:
    CASES.append(Case(name="large", function=lambda x: x, args=(Arg(shape=(TOKENS,)),)))
"""
PLAIN = """
from ligerdiag import Arg, Case
CASE = Case(name="plain", function=lambda x: x, args=(Arg(shape=(4,)),))
"""
GRID = """
selectors = ["asking.py", "plain.py"]
replay = false
[sizes]
usual = {}
same = { tokens = 8 }
large = { tokens = 128 }
"""


@pytest.fixture
def folder(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIGERDIAG_CACHE_DIR", str(shared_cache))
    (tmp_path / "asking.py").write_text(ASKING)
    (tmp_path / "plain.py").write_text(PLAIN)
    return tmp_path


def plan(folder: Path, text: str = GRID) -> SweepPlan:
    (folder / "grid.toml").write_text(text)
    return plan_sweep(load_grid(folder / "grid.toml"), Cache(), lambda step: None)


def test_a_case_has_a_task_for_each_size_it_asks_for_or_one_without_sizes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(folder)
    assert [column.sizes for column in planned.columns] == ["usual", "same", "large"]
    tasks = {(case, column.sizes): task for (_, case, column), task in planned.cells.items()}
    assert {key: task.environment.get(SIZES) for key, task in tasks.items()} == {
        ("step", "usual"): None,
        ("step", "same"): '{"tokens": 8}',
        ("step", "large"): '{"tokens": 128}',
        ("plain", "usual"): None,
        ("plain", "same"): None,
        ("plain", "large"): None,
        ("large", "large"): '{"tokens": 128}',
    }
    assert len({task.key for task in tasks.values()}) == 5
    monkeypatch.setenv(SIZES, '{"tokens": 9}')
    again = {column.sizes: task for (_, case, column), task in plan(folder).cells.items() if case == "step"}
    assert again["usual"].environment[SIZES] == '{"tokens": 9}', (
        "what the user's variable says, a grid may say otherwise"
    )
    assert again["large"].key == tasks["step", "large"].key


def test_each_size_is_compiled_and_listed_in_the_table(folder: Path) -> None:
    (folder / "grid.toml").write_text(GRID)
    report = run_sweep(
        SweepOptions(grid=folder / "grid.toml", store=str(folder / "results"), jobs=1), lambda step: None
    )
    assert (report.ran, report.failed) == (5, {})
    (folder / "table.parquet").write_bytes(render_parquet(report.rows))
    assert read_parquet(folder / "table.parquet") == report.rows
    assert {(row.case, row.sizes): row.given_sizes for row in report.rows if row.case != "plain"} == {
        ("step", "usual"): "",
        ("step", "same"): '{"tokens": 8}',
        ("step", "large"): '{"tokens": 128}',
        ("large", "large"): '{"tokens": 128}',
    }
    page = render_page(report)
    assert page.count("no such case") == 2
    assert "default h100 none large" in page


def test_check_uses_a_size_and_refuses_one_that_no_file_asks_for(
    folder: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> list[str]:
        options = api.CheckOptions(selectors=(f"{folder}/asking.py",), replay=False, cache_directory=shared_cache)
        return [case.id for case in api.check(options).cases]

    assert check() == ["step"]
    monkeypatch.setenv(SIZES, '{"tokens": 101}')
    assert check() == ["step", "large"]
    monkeypatch.setenv(SIZES, '{"token": 101}')
    with pytest.raises(InputError, match=r"no case file asks for the size `token` .*: the files ask for tokens"):
        check()
    monkeypatch.setenv(SIZES, '{"tokens": 0}')
    with pytest.raises(InputError, match="a whole number above 0 for the size `tokens` but got 0"):
        check()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[sizes]\na = { tokens = 0 }", "above 0 for `tokens` of the sizes `a`"),
        ("[sizes]\na = { tokens = 1.5 }", "tokens"),
        ("[sizes]\na = { tokens = true }", "tokens"),
        ("[sizes]\na = 3", "a"),
        ("[sizes]\na = { tokns = 8 }", r"asks for the size `tokns` when it is imported: the files ask for tokens"),
        ("pages = 1", "pages"),
    ],
)
def test_a_grid_with_invalid_sizes_is_refused_in_one_line(folder: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        plan(folder, f'selectors = ["asking.py"]\n{text}\n')
    assert "\n" not in str(caught.value)


def test_a_size_is_the_default_unless_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIZES, json.dumps({"tokens": 16}))
    assert (size("tokens", 8), size("width", 4)) == (16, 4)
    monkeypatch.setenv(SIZES, "tokens=8")
    with pytest.raises(InputError, match=r'expected LIGERDIAG_SIZES to be like {"tokens": 512} but got'):
        size("tokens", 8)
    monkeypatch.delenv(SIZES)
    with pytest.raises(InputError, match="a whole number above 0 for the size `tokens`"):
        size("tokens", -1)


def test_columns_with_and_without_sizes_have_different_names() -> None:
    plain = SweepColumn(toolchain="default", target="h100", flags="none")
    assert name_column(plain) == "default-h100-none"
    assert name_column(SweepColumn(toolchain="default", target="h100", flags="none", sizes="large")).endswith(
        "-none-large"
    )
    assert SweepReport().pages == {}
