"""A configuration file that came with a dump is ignored."""

from pathlib import Path

import pytest

from ligerdiag.cli.options import read_settings
from ligerdiag.config import NAME, find_foreign_config, load_config

ALLOW = '[[tool.ligerdiag.suppress]]\nrule = "LD006"\nreason = "{}"\n'


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump with its own configuration, inside a project with another one."""
    folder = tmp_path / "project" / "dump"
    (folder / "inner").mkdir(parents=True)
    (folder / "step.txt").write_text("HloModule step\n")
    (tmp_path / "project" / NAME).write_text(ALLOW.format("mine"))
    (folder / NAME).write_text(ALLOW.format("theirs"))
    return folder


def read_reasons(*inspected: Path, at: Path) -> list[str]:
    return [entry.reason for entry in load_config(None, at, inspected).suppress]


def test_a_file_inside_the_inspected_folder_is_ignored(dump: Path) -> None:
    assert read_reasons(at=dump) == ["theirs"]
    for at in (dump, dump / "inner"):
        assert read_reasons(dump, at=at) == ["mine"]
        assert read_reasons(dump / "step.txt", at=at) == ["mine"]
        assert find_foreign_config(at, [dump]) == dump / NAME


def test_a_link_to_the_inspected_folder_counts_as_that_folder(dump: Path) -> None:
    link = dump.parent.parent / "link"
    link.symlink_to(dump)
    assert read_reasons(link, at=dump) == ["mine"]
    assert read_reasons(dump, at=link) == []


def test_a_file_elsewhere_counts(dump: Path) -> None:
    assert read_reasons(dump / "inner", at=dump) == ["theirs"]
    assert find_foreign_config(dump, [dump / "inner"]) is None


def test_ignoring_a_file_is_noted_unless_the_user_names_it(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(dump)
    settings = read_settings(None, fail_on=None, strict=None, inspected=[Path()])
    assert settings.notes == (
        f"`{dump / NAME}` came with the inspected files and is ignored: name it with `--config` if it is yours",
    )
    named = read_settings(dump / NAME, fail_on=None, strict=None, inspected=[Path()])
    assert (named.notes, [entry.reason for entry in named.config.suppress]) == ((), ["theirs"])
