"""The memory of a case on a terminal: one line, and everything with `--verbose`."""

from dataclasses import replace

import pytest

from ligerdiag.model.memory import CopyCause, Donation, DonationFault, LiveValue, MemoryUse
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.report.terminal.memory_text import MAX_MEMORIES
from ligerdiag.report.words.memory_words import describe_memory, render_change, render_milliseconds
from ligerdiag.text import compute_cells, render_bytes
from tests.report.samples import IN_PLACE, MIB, make_case, make_copy, make_hostile_memory, make_memory, make_report

COPIES = """\
memory: peak 33.0 MiB (arguments 24.0, new outputs 8.0, temporaries 1.5); copies 16.0 MiB a call, at least 0.010 ms, \
8.0 MiB of them needed; 1 of 2 donations void
   peak at:     %fusion.7 (train.py:52)
   alive:       16.0 MiB   -            argument `cache` f32[2048,2048]
                8.0 MiB    train.py:41  output `cache` f32[2048,1024]
                8.0 MiB    -            argument `w` f32[2048,1024]
                768.0 KiB  train.py:52  temporary %fusion.7 f32[131072], temporary %fusion.8 f32[65536]
                256.0 KiB  -            smaller values
   copies:      8.0 MiB      argument `cache` → temporary memory  train.py:41  not donated, not needed
                  %copy.3: `cache` is not donated, and the update overwrites it
                1.0 MiB × 8  temporary memory → output `state`    train.py:52  read later, needed
                  %copy.5: the loss reads the old state
   void:        4.0 MiB  `ids`  dtype  train.py:52
                  the output of its shape is f32[1048576], not s32[1048576]
   JAX warns:   Some donated buffers were not usable: ShapedArray(int32[1048576]).
   requests:    not all in place: 1 of 2 requests: 1 donated argument, 1 update
                8.0 MiB  update of a part  %fusion.2  train.py:41
   collectives: 2.0 MiB  all-reduce
"""
AT_SIXTY = """\
memory: peak 33.0 MiB (arguments 24.0, new outputs 8.0,
    temporaries 1.5); copies 8.0 MiB a call, all needed; all
    in place, except for copies that are needed: 2 requests:
    1 donated argument, 1 update
   peak at:     %fusion.7 (train.py:52)
   copies:      8.0 MiB an iteration if taken  unknown bytes
                  → temporary memory, transposed, and back
                  unchanged  -  cause unknown, needed
                  %copy.3
   requests:    all in place, except for copies that are
                  needed: 2 requests: 1 donated argument, 1
                  update
                8.0 MiB  update of a part  %fusion.2
                  train.py:41
"""


def show(memory: MemoryUse, *, width: int | None = None, verbose: bool = False) -> str:
    """Returns the lines about the memory of one case."""
    text = render_terminal(make_report(make_case(memory=memory)), width=width, verbose=verbose)
    return text[text.index("memory: ") : text.index("covered: ")]


def test_verbose_shows_copies_donations_requests_and_the_values_alive_at_the_peak() -> None:
    assert show(make_memory(), verbose=True) == COPIES


def test_rows_that_are_too_wide_are_wrapped() -> None:
    copy = make_copy(
        trips=None,
        in_branch=True,
        source="",
        is_transposed=True,
        is_round_trip=True,
        is_needed=True,
        cause=CopyCause.UNKNOWN,
        why="",
        line=None,
    )
    memory = make_memory(copies=(copy,), donations=(), at_peak=(), warning="", collectives=(), bandwidth=0.0)
    assert show(memory, width=60, verbose=True) == AT_SIXTY


def test_without_verbose_a_case_has_one_line() -> None:
    assert show(make_memory()) == COPIES.partition("   peak at")[0]


def test_all_in_place_names_its_evidence() -> None:
    assert show(IN_PLACE).endswith(
        "; no copy of 64 KiB or more; all in place: 3 requests: 2 donated arguments, 1 update\n"
    )


def test_a_program_without_requests_is_not_called_in_place() -> None:
    memory = replace(IN_PLACE, requests=())
    assert "in place" not in show(memory)
    assert "in place" not in show(memory, verbose=True)


def test_a_void_donation_is_never_in_place() -> None:
    void = Donation(argument="w", bytes=MIB, fault=DonationFault.UNUSED)
    assert describe_memory(replace(IN_PLACE, donations=(void,))).endswith("; 1 of 1 donation void")


def test_several_cases_are_named_and_small_ones_are_left_out() -> None:
    small = MemoryUse(arguments=512, outputs=512, aliased=0, temporaries=0, peak=1024)
    report = make_report(make_case("a", memory=make_memory()), make_case("b", memory=small), make_case("c"))
    text = render_terminal(report)
    assert "\nmemory of `a` on h100: peak 33.0 MiB" in text
    assert text.count("peak") == 1
    assert "memory of `b` on h100: peak 1.0 KiB (arguments 0.5, new outputs 0.5, temporaries 0)" in render_terminal(
        report, verbose=True
    )


def test_of_many_cases_the_most_wasteful_have_a_line() -> None:
    cases = [make_case(f"c{n}", memory=replace(IN_PLACE, peak=(n + 1) * MIB)) for n in range(20)]
    wasteful = make_case("wasteful", memory=make_memory(peak=MIB))
    text = render_terminal(make_report(*cases, wasteful))
    assert text.count("memory of ") == MAX_MEMORIES - 1
    assert text.index("memory of `wasteful`") < text.index("memory of `c19`")
    assert "memory: 10 more: -v lists them\n" in text
    assert render_terminal(make_report(*cases, wasteful), verbose=True).count("memory of ") == 21


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"copies": (make_copy(trips=None),)}, "copies at least 8.0 MiB a call, at least 0.0050 ms;"),
        (
            {"copies": (make_copy(in_branch=True),)},
            "copies up to 8.0 MiB a call, at least 0.0050 ms if all branches are taken;",
        ),
        ({"copies": (make_copy(is_needed=True),)}, "copies 8.0 MiB a call, at least 0.0050 ms, all needed;"),
        ({"copies": (make_copy(trips=12),), "bandwidth": 0.0}, "copies 96.0 MiB a call;"),
    ],
)
def test_copied_bytes_are_a_bound_where_a_loop_or_a_branch_leaves_them_open(
    changes: dict[str, object], words: str
) -> None:
    assert words in describe_memory(make_memory(**changes))


def test_sizes_and_times_are_short() -> None:
    assert [render_bytes(n) for n in (0, 1, 999, 1023, 1024, 1023 << 10, 1000 << 20, 3 << 40)] == [
        "0 bytes",
        "1 byte",
        "999 bytes",
        "1.0 KiB",
        "1.0 KiB",
        "1.0 MiB",
        "1.0 GiB",
        "3.0 TiB",
    ]
    assert [render_change(*both) for both in ((1, 1), (0, 8 * MIB), (8 * MIB, 0))] == ["", "+8.0 MiB", "-8.0 MiB"]
    times = [render_milliseconds(n) for n in (785.4, 12.34, 1.2, 0.0112, 3.9e-5, 0.0)]
    assert times == ["785 ms", "12 ms", "1.2 ms", "0.011 ms", "0.000039 ms", "0 ms"]


def test_next_to_nothing_is_not_listed() -> None:
    tiny = LiveValue(instruction="constant.1", bytes=4, about="constant")
    memory = make_memory(outputs=8 * MIB + 16, at_peak=(tiny, *make_memory().at_peak), peak=33 * MIB + 4)
    text = show(memory, verbose=True)
    assert "peak 33.0 MiB (arguments 24.0, temporaries 1.5)" in text
    assert "constant" not in text
    assert "256.0 KiB  -            smaller values" in text
    listed = sum(one.bytes for one in make_memory().at_peak)
    assert "smaller values" not in show(make_memory(peak=listed + 17), verbose=True)


@pytest.mark.parametrize("width", [None, 80])
@pytest.mark.parametrize("colour", [False, True])
def test_hostile_names_are_shown_and_do_nothing(width: int | None, colour: bool) -> None:
    memory = make_hostile_memory("[red]x[/red]\x1b]0;owned\x07\x1b[2J\n##[add-mask]y")
    text = render_terminal(make_report(make_case(memory=memory)), width=width, colour=colour, verbose=True)
    assert text.count("[red]x[/red]") >= 14
    for bad in ("owned", "\x1b[2J", "\x07", "##[add-mask]"):
        assert bad not in text


def test_eighty_columns_are_kept() -> None:
    text = render_terminal(make_report(make_case(memory=make_memory())), width=80, verbose=True)
    assert max(compute_cells(line) for line in text.splitlines()) <= 80
