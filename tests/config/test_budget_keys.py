"""`memory_budget` and `copy_budget` in the configuration."""

from pathlib import Path

import pytest

from ligerdiag.api import function
from ligerdiag.config import load_config
from ligerdiag.errors import InputError
from ligerdiag.model.case import Arg
from ligerdiag.model.memory_limits import MemoryBudgets
from ligerdiag.model.report import CheckReport
from ligerdiag.run_options import CheckOptions
from tests.report.samples import make_case, make_report


def load_budgets(tmp_path: Path, text: str) -> MemoryBudgets:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ligerdiag]\n{text}\n")
    return load_config(None, tmp_path).budgets


def test_a_size_has_a_unit_or_is_a_number_of_bytes(tmp_path: Path) -> None:
    assert load_budgets(tmp_path, "memory_budget = '60G'\ncopy_budget = 1048576") == MemoryBudgets(
        memory=60 << 30, copies=1 << 20
    )


def test_no_copy_at_all_is_a_budget_and_no_memory_is_none(tmp_path: Path) -> None:
    assert load_budgets(tmp_path, "copy_budget = 0") == MemoryBudgets(copies=0)
    with pytest.raises(InputError):
        load_budgets(tmp_path, "memory_budget = 0")


def test_without_the_keys_everything_is_allowed(tmp_path: Path) -> None:
    assert load_budgets(tmp_path, "") == MemoryBudgets()


@pytest.mark.parametrize("value", ["'60 apples'", "''", "-1", "true", "[1]", "1.5", "'60P'"])
def test_anything_else_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(InputError, match='expected a size such as "60G" for `copy_budget` in'):
        load_budgets(tmp_path, f"copy_budget = {value}")


def test_a_function_is_checked_with_the_budgets_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[CheckOptions] = []

    def check_cases(options: CheckOptions, on_progress: object = None) -> CheckReport:
        del on_progress
        asked.append(options)
        return make_report(make_case())

    monkeypatch.setattr(function, "check_cases", check_cases)
    config = tmp_path / "pyproject.toml"
    config.write_text("[tool.ligerdiag]\nmemory_budget = '1M'\n")
    function.check(abs, Arg(shape=(8,)), config=config, cache_directory=tmp_path, name="absolute")
    assert [options.budgets for options in asked] == [MemoryBudgets(memory=1 << 20)]
