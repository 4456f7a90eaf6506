"""Where XLA merged readers of two versions, a finding marks the one that gets the wrong version, and names both."""

import inspect
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Finding, SourceLine
from ligerdiag.model.report import CaseReport
from ligerdiag.report.causes import list_causes, list_marked_places
from ligerdiag.source_excerpt import load_excerpt
from tests.blame import merged_readers

FILE = Path(merged_readers.__file__)


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> dict[str, CaseReport]:
    report = api.check(api.CheckOptions(selectors=(str(FILE),), cache_directory=shared_cache, replay=False))
    return {case.id: case for case in report.cases}


def get_only_cause(case: CaseReport) -> Finding:
    (cause,) = list_causes(case)
    return cause


def get_read_line(cause: Finding) -> SourceLine:
    (place,) = [one for one in list_marked_places(cause) if one.is_read]
    return place.line


def find_wrong_line(name: str) -> int:
    function = merged_readers.norm if name == "in_a_function" else getattr(merged_readers, name)
    lines, start = inspect.getsourcelines(function)
    return next(start + number for number, line in enumerate(lines) if "# wrong" in line)


@pytest.mark.parametrize("name", [case.name for case in merged_readers.CASES])
def test_the_marked_reader_is_the_one_that_gets_the_wrong_version(reports: dict[str, CaseReport], name: str) -> None:
    assert get_read_line(get_only_cause(reports[name])).line == find_wrong_line(name)


def test_the_mark_is_under_the_wrong_one_of_two_readers_of_a_line(reports: dict[str, CaseReport]) -> None:
    excerpt = load_excerpt(get_read_line(get_only_cause(reports["one_line"])), (str(FILE.parent),))
    assert excerpt is not None
    assert excerpt.line[excerpt.start : excerpt.end] == "old**2"


@pytest.mark.parametrize("name", ["late", "late_old_first", "late_outputs", "early"])
def test_the_evidence_names_both_lines_of_the_merged_readers(reports: dict[str, CaseReport], name: str) -> None:
    merged = dict(get_only_cause(reports[name]).evidence)["merged"]
    assert merged.count(f"{FILE.name}:") == 2
    assert f"{FILE.name}:{find_wrong_line(name)}" in merged


def test_merged_readers_of_one_function_are_told_apart_by_their_callers(reports: dict[str, CaseReport]) -> None:
    merged = dict(get_only_cause(reports["in_a_function"]).evidence)["merged"]
    lines, start = inspect.getsourcelines(merged_readers.in_a_function)
    callers = [start + number for number, line in enumerate(lines) if "norm(" in line]
    assert len(callers) == 2
    assert all(f"{FILE.name}:{line}" in merged for line in callers)


def test_two_merged_operations_of_one_line_are_named_once(reports: dict[str, CaseReport]) -> None:
    merged = dict(get_only_cause(reports["one_line"]).evidence)["merged"]
    assert "two operations `integer_pow` (" in merged


def test_a_reader_that_was_not_merged_has_no_such_evidence(reports: dict[str, CaseReport]) -> None:
    assert "merged" not in dict(get_only_cause(reports["apart"]).evidence)
