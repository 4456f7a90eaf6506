"""The table of the slowest cases, and the text that the user's code printed."""

from ligerdiag.model.findings import ReplayState
from ligerdiag.model.report import Status
from ligerdiag.report.terminal.durations import render_durations
from ligerdiag.report.terminal.printed_text import render_printed
from tests.report.samples import make_case, make_device, make_replay, make_report

QUICK = make_case("quick", seconds=0.25, cached=True, replay=make_replay(seconds=9.0, cached=True))
SLOW = make_case("slow\x1b[1m", seconds=3.0, compile_seconds=2.5, replay=make_replay(seconds=1.25))
LARGE = make_case(
    "large", seconds=2.0, compile_seconds=1.5, replay=make_replay({}, state=ReplayState.TOO_LARGE, seconds=0.0)
)
UNSEEN = make_case("unseen", Status.NOT_CHECKED, outputs={}, seconds=0.0)

TABLE = """\
slowest 3 of 3, in seconds; cases run beside each other:
  total  compile  analysis  replay
   4.25     2.50      0.50    1.25  slow on h100
   2.00     1.50      0.50       -  large on h100
   0.25   cached      0.25  cached  quick on h100
"""


def test_the_slowest_cases_come_first_with_their_phases() -> None:
    report = make_report(QUICK, SLOW, UNSEEN, LARGE)
    assert render_durations(report, 0) == TABLE
    assert render_durations(report, 9) == TABLE
    assert render_durations(report, 1).splitlines() == [
        "slowest 1 of 3, in seconds; cases run beside each other:",
        *TABLE.splitlines()[1:3],
    ]


def test_a_run_without_a_case_has_no_table() -> None:
    assert render_durations(make_report(UNSEEN), 0) == "durations: no case was run\n"


def test_times_on_a_device_are_said_to_be_missing() -> None:
    text = render_durations(make_report(make_case(device=make_device())), 0)
    assert text.endswith("runs on a device are not in these times\n")


def test_printed_lines_have_the_name_of_the_case_in_front() -> None:
    cases = [
        make_case("a", target="a100", printed="one\n\x1b[1mtwo\n"),
        make_case("a", target="h100", printed="one\n\x1b[1mtwo\n"),
        make_case("b", target="a100", printed="x"),
        make_case("b", target="h100", printed="y"),
        make_case("c", target="h100"),
    ]
    report = make_report(*cases, targets=("a100", "h100"), printed=(("mine.py", "import\n\nended\n"),))
    assert render_printed(report) == (
        "mine.py | import\nmine.py |\nmine.py | ended\na | one\na | two\nb on a100 | x\nb on h100 | y\n"
    )
