"""The cases that each form of a selector selects."""

from pathlib import Path

import pytest

from ligerdiag.compile.cases.selectors import (
    choose_cases,
    compile_glob,
    describe_files_left_out,
    find_root,
    parse_selectors,
)
from ligerdiag.errors import InputError
from ligerdiag.model.jobs import CaseSpec, Source


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "flce.py").write_text("CASES = ()\n")
    (tmp_path / "cases" / "one.py").write_text("from flce import CASES as CASE\n")
    (tmp_path / "cases" / "helper.py").write_text("VALUE = 1\n")
    (tmp_path / "cases" / "_hidden.py").write_text("CASE = 1\n")
    (tmp_path / "mine.py").write_text("CASE = 1\n")
    return tmp_path


def files_of(selector: str, directory: Path) -> list[str]:
    (selection,) = parse_selectors([selector] if selector else [], directory)
    return [Path(source.file).name for source in selection.sources]


def spec(case_id: str, source: Source) -> CaseSpec:
    return CaseSpec(
        id=case_id, name="n", params=(), source=source, mesh={}, expected=None, about="", draws="", expected_rules=None
    )


def chosen_by(selector: str, ids: list[str], directory: Path) -> list[str]:
    (selection,) = parse_selectors([selector], directory)
    cases = {source: tuple(spec(i, source) for i in ids) for source in selection.sources[:1]}
    cases |= dict.fromkeys(selection.sources[1:], ())
    return [case.id for case in choose_cases(selection, cases)]


def test_without_a_selector_the_folder_cases_is_read(project: Path) -> None:
    assert files_of("", project) == ["flce.py", "one.py"]


def test_without_the_folder_the_error_asks_for_a_selector(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no folder `cases` in .*: give a file such as `mine.py`, or `module:name`"):
        parse_selectors([], tmp_path)


def test_the_error_says_how_to_start_and_which_folder_was_searched(tmp_path: Path) -> None:
    nested = tmp_path / "src" / "pack"
    nested.mkdir(parents=True)
    with pytest.raises(
        InputError, match=rf"cannot find cases: .* in `{nested}`: .*; `ligerdiag init` writes a first case"
    ):
        parse_selectors([], nested)
    (tmp_path / "pyproject.toml").touch()
    with pytest.raises(InputError, match=rf"cannot find `one`: .* in `{nested}` or above it up to `{tmp_path}`"):
        parse_selectors(["one"], nested)
    (tmp_path / "cases").mkdir()
    with pytest.raises(InputError, match=rf"in the folder `{tmp_path}/cases` defines CASE.*`ligerdiag init`"):
        parse_selectors([], nested)


@pytest.mark.parametrize("selector", ["", "one"])
def test_in_a_nested_folder_the_project_s_cases_are_selected(project: Path, selector: str) -> None:
    nested = project / "src" / "pack"
    nested.mkdir(parents=True)
    with pytest.raises(InputError, match="no folder `cases`"):  # no project: a folder above belongs to somebody else
        parse_selectors([selector] if selector else [], nested)
    (project / "pyproject.toml").touch()
    assert files_of(selector, nested) == ["flce.py", "one.py"]
    assert files_of(selector, project / "cases") == ["flce.py", "one.py"]
    (nested / "cases").mkdir()
    (nested / "cases" / "nearer.py").write_text("CASE = 1\n")
    assert files_of(selector, nested) == ["nearer.py"]
    (nested.parent / "pyproject.toml").touch()  # a project inside the project ends the search
    assert files_of(selector, nested) == ["nearer.py"]
    with pytest.raises(InputError, match="no folder `cases`"):
        parse_selectors([], nested.parent)


@pytest.mark.parametrize("selector", ["mine.py", "./mine.py", "mine.py::x*"])
def test_a_file_is_named_by_its_path(project: Path, selector: str) -> None:
    assert files_of(selector, project) == ["mine.py"]


def test_a_module_is_imported_from_the_current_folder(project: Path) -> None:
    (selection,) = parse_selectors(["pack.cases:CASES"], project)
    assert selection.sources == (Source(module="pack.cases:CASES", root=str(project)),)


@pytest.mark.parametrize("selector", ["nowhere.py", "nowhere.py::x", "no/where"])
def test_a_missing_file_is_named(project: Path, selector: str) -> None:
    with pytest.raises(InputError, match=f"no file or folder `{selector.split('::', maxsplit=1)[0]}`"):
        parse_selectors([selector], project)


def test_brackets_match_literally(project: Path) -> None:
    ids = ["seed_flce[False-f32]", "seed_flce[True-f32]", "seed_flceF"]
    assert chosen_by("seed_flce[False-*]", ids, project) == ids[:1]
    assert chosen_by("seed_flce[*]", ids, project) == ids[:2]
    assert chosen_by("cases::seed_flce[????-f32]", ids, project) == ids[1:2]


def test_a_glob_matches_the_whole_id() -> None:
    assert compile_glob("a.c").fullmatch("abc") is None
    assert compile_glob("a?c*").fullmatch("abcd") is not None


def test_a_selector_that_matches_nothing_suggests_near_ids(project: Path) -> None:
    with pytest.raises(InputError, match=r"no case of `cases` matches `seed_flc`; the nearest are `seed_flce`"):
        chosen_by("seed_flc", ["seed_flce", "other"], project)


def test_imports_start_at_the_nearest_project(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er" / "mine.py"
    file.parent.mkdir(parents=True)
    assert find_root(file) == file.parent or (file.parent / "pyproject.toml").exists()
    (tmp_path / "deep" / "pyproject.toml").touch()
    assert find_root(file) == tmp_path / "deep"


def test_imports_start_at_the_root_of_the_repository_if_there_is_no_project(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er" / "mine.py"
    (tmp_path / ".git").mkdir()
    assert find_root(file) == tmp_path
    file.parent.mkdir(parents=True)
    (tmp_path / "deep" / "pyproject.toml").touch()
    assert find_root(file) == tmp_path / "deep"


def test_a_note_names_the_files_of_a_whole_folder_that_define_no_case(project: Path) -> None:
    note = "1 file of the folder `cases` left out, without CASE or CASES: helper.py"
    assert describe_files_left_out((), project) == describe_files_left_out(("cases", "cases"), project) == (note,)
    assert describe_files_left_out(("cases::one*", "cases/one.py"), project) == ()
    (project / "cases" / "helper.py").write_text("CASE = 1\n")
    assert describe_files_left_out(("cases",), project) == ()
