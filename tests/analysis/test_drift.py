"""Which changes around a hidden write count as drift, with records made by hand."""

from dataclasses import replace

import pytest

from ligerdiag.analysis.explain.drift import ChangeKind, Drift, Instead, compare_schedules, pair_readers
from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.schedule_view import CallState, Fate, Neighbourhood, Origin, Reader, ReadTime, ScheduleFacts
from tests.analysis.neighbourhoods_by_hand import make_facts, make_neighbourhood, make_reader


def compare(before: Neighbourhood | None, after: Neighbourhood | None) -> list[Drift]:
    facts = (make_facts(*([one] if one else [])) for one in (before, after))
    _, pairs = compare_schedules(*facts)
    return [change for pair in pairs for change in pair.changes]


def kinds(before: Neighbourhood | None, after: Neighbourhood | None) -> list[str]:
    return [change.kind.value for change in compare(before, after)]


def test_equal_neighbourhoods_have_no_change() -> None:
    one = make_neighbourhood(make_reader(), make_reader("reduce_sum", opcode="reduce"))
    assert compare(one, one) == []


def test_a_reader_that_moves_is_reported_with_its_line() -> None:
    before = make_neighbourhood(make_reader(), make_reader("reduce_sum", opcode="reduce"))
    after = make_neighbourhood(make_reader(side=ReadTime.BEFORE), make_reader("reduce_sum", opcode="reduce"))
    (change,) = compare(before, after)
    assert change.kind is ChangeKind.MOVED
    assert change.text == "`dot_general` (train.py:41) moved from after to before the kernel"
    assert change.source == SourceLine(file="/home/me/train.py", line=41, function="step")


@pytest.mark.parametrize(
    "changes",
    [
        {"source": SourceLine(file="/elsewhere/train.py", line=77, function="step")},
        {"op_name": "jit(step)/jit(main)/dot_general"},
        {"opcode": "custom-call"},
        {"source": None},
        {"op_name": "jit(main)/dot_general", "opcode": "custom-call", "source": None},
    ],
)
def test_a_reader_is_recognized_whatever_the_compiler_calls_it(changes: dict[str, object]) -> None:
    assert kinds(make_neighbourhood(make_reader()), make_neighbourhood(replace(make_reader(), **changes))) == []  # type: ignore[arg-type]


def test_of_two_readers_that_are_alike_the_one_that_moved_is_reported() -> None:
    before = make_neighbourhood(make_reader(), make_reader())
    after = make_neighbourhood(make_reader(side=ReadTime.BEFORE), make_reader())
    assert kinds(before, after) == ["moved"]


def test_readers_are_paired_by_the_strictest_key_first() -> None:
    def on_line(line: int) -> Reader:
        return make_reader(source=SourceLine(file="a.py", line=line, function="step"))

    pairs = pair_readers((on_line(1), on_line(2)), (on_line(2), on_line(1)))
    assert all(pair.before == pair.after for pair in pairs)


def test_a_reader_replaced_by_another_operation_is_lost_and_gained() -> None:
    before, after = make_neighbourhood(make_reader()), make_neighbourhood(make_reader("reduce_sum", opcode="reduce"))
    changes = compare(before, after)
    assert [change.kind.value for change in changes] == ["lost", "gained"]
    assert changes[1].text == "one more reader: `reduce_sum` (train.py:41) reads the overwritten bytes after the kernel"


def test_the_order_of_readers_on_one_side_of_the_kernel_does_not_matter() -> None:
    one, other = make_reader(), make_reader("reduce_sum", opcode="reduce")
    assert kinds(make_neighbourhood(one, other), make_neighbourhood(other, one)) == []


def test_a_reader_of_other_bytes_is_a_change() -> None:
    before, after = make_neighbourhood(make_reader()), make_neighbourhood(make_reader(origin=Origin.SOURCE))
    (change,) = compare(before, after)
    assert change.kind is ChangeKind.ORIGIN
    assert change.text.endswith(
        "used to read the overwritten bytes and now reads the value that the kernel's operand was copied from"
    )


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"copied_by": ("all-gather",)}, "copied", "the kernel's operand was no copy and is a copy (all-gather)"),
        ({"shares": ("a constant",)}, "shared", "a constant is now in the overwritten bytes"),
        (
            {"shape": "f32[8,64]", "size": 2048},
            "size",
            "the kernel used to overwrite f32[8,32] (1024 bytes) and now overwrites f32[8,64] (2048 bytes)",
        ),
        ({"fate": Fate.GONE, "readers": ()}, "kernel", "the call was performed and is gone"),
    ],
)
def test_a_change_to_the_overwritten_bytes_is_reported(changes: dict[str, object], kind: str, text: str) -> None:
    before = make_neighbourhood(make_reader())
    (change,) = compare(before, replace(before, **changes))  # type: ignore[arg-type]
    assert (change.kind.value, change.text) == (kind, text)


def test_another_kernel_or_call_is_another_write() -> None:
    one = make_neighbourhood(make_reader())
    assert kinds(one, replace(one, kernel="other")) == ["kernel", "kernel"]
    assert kinds(one, replace(one, number=2)) == ["kernel", "kernel"]
    assert [change.text for change in compare(None, one)] == ["the hidden write is new"]


HIDDEN, DECLARED, OUT_OF_PLACE = (
    CallState(kernel="ce_kernel", **words) for words in ({"hidden": (0,)}, {"declared": (0,)}, {})
)
OTHER = CallState(kernel="other")


def compare_calls(before: tuple[CallState, ...], after: tuple[CallState, ...]) -> list[tuple[str, Instead | None]]:
    """Returns the text about each hidden write that only one of the two compiles has, and what the other one has."""

    def make(calls: tuple[CallState, ...]) -> ScheduleFacts:
        around = [make_neighbourhood(number=n + 1) for n in range(calls.count(HIDDEN))]
        return ScheduleFacts(neighbourhoods=tuple(around), kernel_calls=calls)

    _, pairs = compare_schedules(make(before), make(after))
    return [(change.text, pair.instead) for pair in pairs for change in pair.changes]


@pytest.mark.parametrize(
    ("after", "text", "instead"),
    [
        ((DECLARED,), "the write is declared now: an output of the call aliases the operand", Instead.DECLARED),
        ((OUT_OF_PLACE,), "the kernel works out of place now: it does not overwrite the operand", Instead.OUT_OF_PLACE),
        ((), "the call is gone", Instead.NO_CALL),
        ((OTHER,), "the call is gone", Instead.NO_CALL),
    ],
)
def test_a_hidden_write_that_is_not_there_is_declared_or_out_of_place_or_gone(
    after: tuple[CallState, ...], text: str, instead: Instead
) -> None:
    assert compare_calls((HIDDEN,), after) == [(text, instead)]


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ((DECLARED,), "the write was declared and is hidden now"),
        ((OUT_OF_PLACE,), "the kernel worked out of place and overwrites the operand now"),
        ((), "the call is new"),
    ],
)
def test_a_hidden_write_that_is_new_was_declared_or_out_of_place_or_is_a_new_call(
    before: tuple[CallState, ...], text: str
) -> None:
    assert [one for one, _ in compare_calls(before, (HIDDEN,))] == [text]


def test_a_call_that_was_declared_before_is_no_cure_of_another_one() -> None:
    assert [one for _, one in compare_calls((HIDDEN, DECLARED), (DECLARED,))] == [Instead.NO_CALL]
    assert [one for _, one in compare_calls((HIDDEN, HIDDEN), (HIDDEN, DECLARED))] == [Instead.DECLARED]
    assert [one for _, one in compare_calls((HIDDEN, HIDDEN), (DECLARED,))] == [Instead.DECLARED, Instead.NO_CALL]


def test_the_state_is_unknown_if_the_calls_of_one_side_are() -> None:
    before = ScheduleFacts(neighbourhoods=(make_neighbourhood(),))
    _, (pair,) = compare_schedules(before, ScheduleFacts(kernel_calls=(DECLARED,)))
    assert pair.instead is Instead.UNKNOWN
    assert [change.text for change in pair.changes] == ["the hidden write is gone"]


def test_another_fusion_is_a_minor_change_and_an_unrecorded_one_is_none() -> None:
    alone, fused = make_reader(within=""), make_reader(within="fusion to `add`")
    (change,) = compare(make_neighbourhood(alone), make_neighbourhood(fused))
    assert change.is_minor
    assert change.text == "`dot_general` (train.py:41) was alone and is in a fusion to `add`"
    assert kinds(make_neighbourhood(make_reader(within=None)), make_neighbourhood(fused)) == []


def test_different_verdicts_are_changes_and_new_or_lost_outputs_are_minor_ones() -> None:
    changes, _ = compare_schedules(
        make_facts(a=Verdict.FRESH, b=Verdict.LATENT, old=Verdict.FRESH),
        make_facts(a=Verdict.FRESH, b=Verdict.STALE, new=Verdict.FRESH),
    )
    assert [(change.output, change.text, change.is_minor) for change in changes] == [
        ("b", "`b` was latent and is stale", False),
        ("old", "the output `old` is gone", True),
        ("new", "the output `new` is new", True),
    ]


def test_a_reader_is_paired_with_one_on_its_own_side_of_the_kernel_first() -> None:
    before = make_neighbourhood(make_reader(side=ReadTime.BEFORE), make_reader())
    assert kinds(before, make_neighbourhood(make_reader())) == ["lost"]
