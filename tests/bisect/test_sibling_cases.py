"""Finds the cases of a table that differ only in their mitigation."""

import pytest

from ligerdiag.bisect.mitigation import find_mitigation, find_siblings
from ligerdiag.model.jobs import CaseSpec, Source

SOURCE = Source(file="/project/mine.py", root="/project")


def make_case(*params: str, name: str = "step", mitigation: str = "", source: Source = SOURCE) -> CaseSpec:
    return CaseSpec(
        id=f"{name}[{'-'.join(params)}]",
        name=name,
        params=params,
        source=source,
        mesh={},
        expected=None,
        about="",
        draws="",
        mitigation=mitigation,
    )


@pytest.mark.parametrize(
    ("case", "mitigation"),
    [
        (make_case("hidden", "float32"), "hidden"),
        (make_case("float32", "out_of_place", "8"), "out_of_place"),
        (make_case("True", "8", mitigation="trivial"), "trivial"),
        (make_case("hidden", "8", mitigation="donated"), "donated"),
        (make_case("float32"), ""),
        (make_case("hidden", "aliased"), ""),
        (make_case(), ""),
    ],
    ids=["a param", "a later param", "its own word", "its own word first", "none", "two", "no params"],
)
def test_a_case_names_its_mitigation_or_has_one_parameter_with_a_usual_name(case: CaseSpec, mitigation: str) -> None:
    assert find_mitigation(case) == mitigation


def test_siblings_differ_only_in_their_mitigation_and_come_in_the_usual_order() -> None:
    table = [
        make_case("aliased", "float32", "8"),
        make_case("hidden", "float32", "8"),
        make_case("hidden", "bfloat16", "8"),
        make_case("trivial", "bfloat16", "8"),
        make_case("trivial", "float32", "9"),
        make_case("trivial", "float32"),
        make_case("barrier", "float32", "8", name="other"),
        make_case("barrier", "float32", "8", source=Source(file="/project/other.py", root="/project")),
        make_case("out_of_place", "float32", "8"),
    ]
    found = find_siblings(table[0], table)
    assert [case.id for case in found] == [f"step[{word}-float32-8]" for word in ("hidden", "aliased", "out_of_place")]


def test_a_user_s_own_mitigation_comes_after_the_usual_ones() -> None:
    table = [
        make_case("2", "x", mitigation="rewritten"),
        make_case("False", "x", mitigation="hidden"),
        make_case("True", "x", mitigation="trivial"),
        make_case("True", "y", mitigation="trivial"),
    ]
    assert [find_mitigation(case) for case in find_siblings(table[2], table)] == ["hidden", "trivial", "rewritten"]


def test_of_two_cases_with_the_same_mitigation_the_bisected_or_the_first_counts() -> None:
    table = [make_case("1", mitigation="hidden"), make_case("2", mitigation="hidden"), make_case("aliased")]
    assert find_siblings(table[1], table) == (table[1], table[2])
    assert find_siblings(table[2], table) == (table[0], table[2])


def test_a_case_without_a_mitigation_has_no_siblings() -> None:
    assert find_siblings(make_case("float32"), [make_case("float32"), make_case("hidden")]) == ()
