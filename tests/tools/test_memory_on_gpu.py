"""A copy of the schedule agrees with a profile only if every byte is accounted for."""

import pytest

from tools.memory_on_gpu import Copied, Row, is_copy


@pytest.mark.parametrize(
    ("runs", "in_branch", "profiled", "agrees"),
    [
        (3, False, 300, True),
        (3, False, 200, False),
        (3, False, 301, False),
        (3, True, 200, True),
        (3, True, 0, True),
        (3, True, 250, False),
        (3, True, 400, False),
        (None, False, 700, True),
        (None, False, 750, False),
    ],
)
def test_a_copy_runs_as_often_as_the_schedule_says(
    runs: int | None, in_branch: bool, profiled: int, agrees: bool
) -> None:
    assert Copied(bytes=100, runs=runs, in_branch=in_branch, profiled=profiled).agrees is agrees


@pytest.mark.parametrize(
    ("name", "answer"),
    [("copy.2", True), ("copy-start", True), ("copy_bitcast_fusion", False), ("wrapped_slice", False)],
)
def test_copies_are_told_from_other_instructions(name: str, answer: bool) -> None:
    assert is_copy(name) is answer


@pytest.mark.parametrize(
    ("temporaries", "peak", "others", "agrees"),
    [
        (1000, 20_000, {"wrapped_slice": 64}, True),
        (1000, 20_010, {}, True),
        (1001, 20_000, {}, False),
        (1000, 20_100, {}, False),
        (1000, 20_000, {"copy.7": 64}, False),
    ],
)
def test_a_case_agrees_if_all_its_figures_do(temporaries: int, peak: int, others: dict[str, int], agrees: bool) -> None:
    row = Row(
        case="step",
        device="a GPU",
        devices=1,
        temporaries=temporaries,
        temporaries_of_xla=1000,
        peak=peak,
        peak_of_xla=20_000,
        copies={"copy.1": Copied(bytes=100, runs=1, in_branch=False, profiled=100)},
        copied_by_kernels=0,
        others=others,
    )
    assert row.agrees is agrees
