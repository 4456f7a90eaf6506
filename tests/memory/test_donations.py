"""Each donated argument has the output that takes its bytes, or the reason why none does."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.memory.donations import JudgedDonation, find_clashes
from ligerdiag.model.memory import Donation, DonationFault
from ligerdiag.model.report import CaseReport

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def cases(shared_cache: Path) -> dict[str, CaseReport]:
    files = (str(PROGRAMS / "void_donations.py"), str(PROGRAMS / "more_loops.py"))
    report = api.check(api.CheckOptions(selectors=files, cache_directory=shared_cache, replay=False))
    return {case.id: case for case in report.cases}


def list_donations(case: CaseReport) -> dict[str, Donation]:
    assert case.memory is not None
    return {one.argument: one for one in case.memory.donations}


def test_an_output_of_the_same_shape_takes_the_bytes(cases: dict[str, CaseReport]) -> None:
    donations = list_donations(cases["donated_half_returned"])
    assert donations["state.w"].output == "w"
    assert donations["state.w"].fault is None
    assert donations["state.n"].output == "n"


@pytest.mark.parametrize(
    ("name", "argument", "fault", "why"),
    [
        ("cast_half", "x", DonationFault.DTYPE, "output `output` has the same shape, but is f16, not f32"),
        ("pad_rows", "x", DonationFault.SHAPE, "no output has the shape f32[240,512]; output"),
        (
            "mean_of_three",
            "c",
            DonationFault.SURPLUS,
            "the only output of shape f32[256,1024] takes the bytes of another donated argument",
        ),
        ("three_for_two", "c", DonationFault.SURPLUS, "each of the 2 outputs of shape"),
        ("keep_second", "scratch", DonationFault.UNUSED, "the program does not use it"),
        (
            "shifted",
            "state.w",
            DonationFault.DTYPE,
            "output `w` takes the bytes of argument `state.p`, because output `m` is bf16, not f32",
        ),
        (
            "shifted_by_place",
            "b",
            DonationFault.DTYPE,
            "output `1` takes the bytes of argument `a`, because output `0` is bf16, not f32",
        ),
        (
            "last_in_another_dtype",
            "state.w",
            DonationFault.DTYPE,
            "output `w` has the same shape, but is bf16, not f32",
        ),
        ("ignore_second", "scratch", DonationFault.DROPPED, "the function never reads the argument, so JAX drops it"),
        (
            "donate_static_part",
            "fluid.p",
            DonationFault.DROPPED,
            "the function never reads the argument, so JAX drops it",
        ),
        ("offload_all", "x", DonationFault.MEMORY, "output `output` is in the memory of the host"),
        ("fetch", "x", DonationFault.MEMORY, "output `output` is in the memory of the device"),
        ("sharded_otherwise", "x", DonationFault.SHARDING, "is split over the devices in another way"),
    ],
)
def test_a_void_donation_has_its_reason(
    cases: dict[str, CaseReport], name: str, argument: str, fault: DonationFault, why: str
) -> None:
    donation = list_donations(cases[name])[argument]
    assert donation.output == ""
    assert donation.fault is fault
    assert why in donation.why


@pytest.mark.parametrize(("name", "output"), [("offload_one", "output 1"), ("update_on_host", "output")])
def test_an_output_in_the_memory_of_the_argument_takes_the_bytes(
    cases: dict[str, CaseReport], name: str, output: str
) -> None:
    """As JAX pairs them for arrays that are committed to their device."""
    donation = list_donations(cases[name])["x"]
    assert (donation.output, donation.fault) == (output, None)


def make_judged_donation(number: int, output: int | None) -> JudgedDonation:
    fault = DonationFault.SHAPE if output is None else None
    return JudgedDonation(number=number, bytes=4, output=output, fault=fault, why="")


@pytest.mark.parametrize(
    ("taken", "dropped", "clash"),
    [
        ({0: 0}, (), (0, (1,), ())),
        ({1: 0}, (), (1, (0,), ())),
        ({0: 0, 1: 1}, (), (0, (1,), (1,))),
        ({0: None}, (), None),
        ({0: 0}, (1,), None),
        ({2: 0}, (), None),
    ],
)
def test_a_clash_needs_two_arguments_that_are_passed_and_one_whose_bytes_are_taken(
    taken: dict[int, int | None], dropped: tuple[int, ...], clash: tuple[int, tuple[int, ...], tuple[int, ...]] | None
) -> None:
    """Arguments 0 and 1 are one array."""
    judged = [make_judged_donation(number, output) for number, output in taken.items()]
    found = [(one.number, one.others, one.taken) for one in find_clashes(judged, [(0, 1)], dropped)]
    assert found == ([] if clash is None else [clash])


def test_the_line_is_the_one_that_uses_the_argument(cases: dict[str, CaseReport]) -> None:
    line = list_donations(cases["pop_last"])["queue"].line
    assert line is not None
    source = (PROGRAMS / "void_donations.py").read_text(encoding="utf-8").splitlines()
    assert "dynamic_index_in_dim(queue" in source[line.line - 1]


def test_arguments_with_one_fault_are_one_finding(cases: dict[str, CaseReport]) -> None:
    (finding,) = cases["attention_scores"].findings
    assert finding.message.startswith("`q` and `k` (512.0 KiB) are donated")
