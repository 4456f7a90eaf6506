"""`baseline` in the configuration is a path relative to the file's folder."""

from pathlib import Path

import pytest

from ligerdiag.config import load_config
from ligerdiag.errors import InputError


def test_the_path_is_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ligerdiag]\nbaseline = 'schedules.json'\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    assert load_config(None, inner).baseline == tmp_path / "schedules.json"


def test_without_the_key_there_is_no_baseline(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ligerdiag]\n")
    assert load_config(None, tmp_path).baseline is None


@pytest.mark.parametrize("value", ["3", "''", "['a.json']"])
def test_a_value_that_is_not_a_path_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ligerdiag]\nbaseline = {value}\n")
    with pytest.raises(InputError, match="expected a file path for `baseline`"):
        load_config(None, tmp_path)
