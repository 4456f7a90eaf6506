"""What people read: wide, at 80 columns, through a pipe, in colour and not."""

import io
from pathlib import Path

import pytest

from ligerdiag.findings import SourceLine, Verdict
from ligerdiag.outcomes import Attribution, OutputNumbers, ReplayState
from ligerdiag.report.agreement import compute_disagreements
from ligerdiag.report.model import Coverage, Progress, Status
from ligerdiag.report.printable import compute_cells
from ligerdiag.report.terminal import ProgressDisplay, compute_colour, compute_stream_width, render_terminal
from tests.report.samples import (
    AGREEING,
    OUTPUTS,
    make_case,
    make_device,
    make_finding,
    make_numbers,
    make_refused,
    make_replay,
    make_report,
)

LONG_ID = "seed_flce_bf16[False-bfloat16-True-4-2048-50304-1024]"


def test_a_case_is_one_line_with_a_verdict_for_every_output() -> None:
    lines = render_terminal(make_report(make_case())).splitlines()
    assert lines[0].split() == ["case", "status", "h100"]
    assert lines[1] == "flce[hidden]  as expected  loss fresh · input STALE · weight latent · bias clobbered"


def test_a_pipe_gets_ids_unbroken_however_long() -> None:
    long = f"case[{'x' * 300}]"
    text = render_terminal(make_report(make_case(long), make_case("b")))
    assert any(line.startswith(f"{long}  as expected  loss fresh") for line in text.splitlines())


def test_eighty_columns_are_kept_and_ids_stay_whole() -> None:
    report = make_report(
        make_case(LONG_ID, findings=(make_finding(),)),
        make_case("b", Status.UNEXPECTED, mismatch="expected `weight` stale but it is fresh " * 4),
    )
    text = render_terminal(report, width=80)
    assert max(compute_cells(line) for line in text.splitlines()) <= 80
    assert f"{LONG_ID}  as expected\n    loss fresh · input STALE" in text


def test_a_verdict_keeps_its_words_without_colour() -> None:
    text = render_terminal(make_report(make_case()), colour=False)
    assert "\x1b" not in text


def test_colour_changes_nothing_but_colour() -> None:
    report = make_report(make_case(findings=(make_finding(),)), make_case("b", Status.ERROR, error="aborted"))
    coloured = render_terminal(report, colour=True)
    assert "\x1b[1;31mSTALE\x1b[0m" in coloured
    assert "\x1b[32mfresh\x1b[0m" in coloured
    from ligerdiag.report.printable import compute_printable

    plain = "".join(f"{compute_printable(line)}\n" for line in coloured.splitlines())
    assert plain == render_terminal(report)


@pytest.mark.parametrize("width", [None, 80])
@pytest.mark.parametrize("colour", [False, True])
def test_hostile_names_are_shown_and_do_nothing(width: int | None, colour: bool) -> None:
    evil = "[red]x[/red]\x1b]0;owned\x07\x1b[2J\n"
    finding = make_finding(
        message=evil, help=evil, evidence=((evil, evil),), source=SourceLine(file=evil, line=3), rule="LD001"
    )
    case = make_case(
        evil,
        Status.ERROR,
        target=evil,
        outputs={evil: Verdict.STALE},
        findings=(finding,),
        error=evil,
        log_tail=evil,
        coverage=Coverage(not_covered=(evil,)),
    )
    report = make_report(case, make_case(evil, Status.UNEXPECTED, mismatch=evil), targets=(evil,))
    text = render_terminal(report, width=width, colour=colour, verbose=True)
    assert "[red]x[/red]" in text
    assert "owned" not in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text


def test_targets_stand_side_by_side() -> None:
    report = make_report(
        make_case(target="a100", outputs={"w": Verdict.LATENT}),
        make_case(target="h100", outputs={"w": Verdict.STALE}),
        targets=("a100", "h100"),
    )
    lines = render_terminal(report).splitlines()
    assert lines[0].split() == ["case", "status", "a100", "h100"]
    assert lines[1].split() == ["flce[hidden]", "as", "expected", "w", "latent", "w", "STALE"]


def test_targets_that_differ_in_status_each_say_theirs() -> None:
    report = make_report(
        make_case(target="a100", outputs={"w": Verdict.STALE}),
        make_case(target="h100", status=Status.UNEXPECTED, outputs={"w": Verdict.FRESH}, mismatch="m"),
        make_case("other", target="h100"),
        targets=("a100", "h100"),
    )
    text = render_terminal(report)
    assert text.splitlines()[1].startswith("flce[hidden]  UNEXPECTED   ")
    assert "UNEXPECTED: w fresh" in text
    assert "as expected: w STALE" in text
    assert "not done" in text


def test_equal_findings_of_expected_cases_are_said_once() -> None:
    cases = [make_case(f"flce[{n}]", findings=(make_finding(), make_finding())) for n in range(9)]
    text = render_terminal(make_report(*cases))
    assert text.count("error[LD002]") == 1
    assert "in:    flce[0], flce[1], flce[2], flce[3], flce[4] and 4 more" in text


def test_verbose_says_every_finding_by_itself() -> None:
    cases = [make_case(f"flce[{n}]", findings=(make_finding(),)) for n in range(9)]
    assert render_terminal(make_report(*cases), verbose=True).count("error[LD002]") == 9


def test_findings_of_other_cases_are_never_grouped() -> None:
    cases = [make_case(f"flce[{n}]", Status.UNEXPECTED, findings=(make_finding(),), mismatch="m") for n in range(3)]
    text = render_terminal(make_report(*cases))
    assert text.count("error[LD002]") == 3
    assert "unexpected: `flce[0]` on h100: m" in text


def test_another_source_line_is_another_group() -> None:
    other = make_finding(source=SourceLine(file="train.py", line=42))
    text = render_terminal(make_report(make_case("a", findings=(make_finding(),)), make_case("b", findings=(other,))))
    assert text.count("error[LD002]") == 2


def test_a_finding_reads_like_the_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("\n" * 40 + "    loss = flce(x, w)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    finding = make_finding(source=SourceLine(file=str(tmp_path / "train.py"), line=41))
    text = render_terminal(make_report(make_case(findings=(finding,))))
    assert (
        "error[LD002]: gradient of `bias` reads a copy of the logits that `ce_kernel` overwrote elsewhere\n"
        "  --> train.py:41  loss = flce(x, w)\n"
        "   write: %triton_kernel_call.2 overwrites operand 0, %transpose, at logical time 14\n"
        "   read:  %input_reduce_fusion reads %loop_add_fusion at logical time 22\n"
        "   help:  return the gradient as a declared output\n"
        "   in:    flce[hidden]\n"
    ) in text


@pytest.mark.parametrize("file", ["/dev/zero", "/etc/passwd", "no_such.py", "\x00.py", "."])
def test_a_source_that_is_not_a_python_file_here_is_named_and_not_read(file: str) -> None:
    text = render_terminal(make_report(make_case(findings=(make_finding(source=SourceLine(file=file, line=1)),))))
    assert "root:" not in text
    assert "  --> " in text


def test_an_error_shows_case_message_and_the_end_of_the_log() -> None:
    log = "\n".join(f"line {n}" for n in range(100))
    case = make_case("boom", Status.ERROR, error="worker aborted", log_tail=log, outputs={})
    text = render_terminal(make_report(case))
    assert "could not analyse `boom` on h100: worker aborted\n   | line 88\n" in text
    assert "   | line 99\n" in text
    assert "line 87" not in text


def test_coverage_says_what_was_and_was_not_covered() -> None:
    report = make_report(make_case("a"), make_case("b"), make_case("c", Status.ERROR, error="x"))
    text = render_terminal(report)
    assert (
        "covered: 240 instructions in 2 modules, 2 custom calls, 2 hidden writes, 158 of 160 tags found again, "
        "buffer assignment of 2 modules\n"
    ) in text
    assert "not covered: custom call `cublas$gemm` by its table entry (in 2 modules)\n" in text
    assert "not covered: 1 module that could not be analysed\n" in text


def test_no_line_claims_more_than_was_covered() -> None:
    cases = [make_case(f"c[{status.name}]", status, outputs={"a": Verdict.FRESH}) for status in Status]
    text = render_terminal(make_report(*cases)).lower().replace("c[clean]", "")
    assert "clean" not in text
    assert "no hazard" not in text


def test_the_last_line_counts() -> None:
    report = make_report(make_case("a"), make_case("b"), make_case("c", Status.UNEXPECTED, mismatch="m"))
    last = render_terminal(report).splitlines()[-1]
    assert last == "3 cases on h100 in 1.5 s: 2 as expected, 1 unexpected, 0 inconclusive, 0 could not analyse"


def test_an_interrupted_run_says_so() -> None:
    assert "interrupted, the other cases were not done" in render_terminal(make_report(make_case(), interrupted=True))
    assert render_terminal(make_report(interrupted=True)) == "interrupted before any case was done\n"


def test_an_empty_run_says_that_nothing_was_checked() -> None:
    assert render_terminal(make_report()) == "nothing was checked\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_unless_the_user_says_otherwise() -> None:
    assert compute_colour(Terminal(), {})
    assert not compute_colour(Terminal(), {"NO_COLOR": "1"})
    assert not compute_colour(Terminal(), {"TERM": "dumb"})
    assert not compute_colour(io.StringIO(), {})
    assert compute_colour(io.StringIO(), {"FORCE_COLOR": "1"})
    assert not compute_colour(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"})


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert compute_stream_width(Terminal()) == 100
    assert compute_stream_width(io.StringIO()) is None


def test_progress_through_a_pipe_is_at_most_a_line_a_second() -> None:
    stream, clock = io.StringIO(), iter(n / 10 for n in range(21))
    with ProgressDisplay(stream, now=lambda: next(clock)) as show:
        for n in range(21):
            show(Progress(phase="compile", event="started", done=n, total=21, case_id="a\x1b[31m[b]", target="h100"))
    assert stream.getvalue() == "0/21 compile a[b] h100\n10/21 compile a[b] h100\n20/21 compile a[b] h100\n"


def test_progress_on_a_terminal_is_a_bar_that_survives_hostile_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with ProgressDisplay(stream) as show:
        show(Progress(phase="compile", event="started", done=1, total=3, case_id="[/nonsense]\x07", target="h100"))
    assert "1/3" in stream.getvalue()
    assert "[/nonsense]" in stream.getvalue()
    assert "\x07" not in stream.getvalue()


LOSSY = make_replay({**AGREEING, "weight": make_numbers(Attribution.LOSSY)})
FRESH_INPUT = make_replay({**AGREEING, "input": make_numbers()})
TOO_LARGE = make_refused(
    ReplayState.TOO_LARGE, "estimated 42 s and 6 GiB, more than 10 s or 4 GiB: `--full` replays it"
)
REPLAYED = make_report(
    make_case("flce[hidden]", replay=make_replay(), findings=(make_finding(),)),
    make_case("flce[trivial]", replay=LOSSY),
    make_case("seed[False-float32-True-4-2048-50304-1024]", replay=TOO_LARGE),
    make_case("conv", replay=make_refused(ReplayState.NOT_COVERED, "convolution")),
    make_case("boom", replay=make_refused(ReplayState.FAILED, "the worker was aborted")),
    make_case(
        "bad",
        Status.DISAGREEMENT,
        replay=FRESH_INPUT,
        disagreements=compute_disagreements(OUTPUTS, (make_finding(outputs=("input",)),), FRESH_INPUT, None),
        findings=(),
    ),
)
AT_EIGHTY = """\
flce[hidden]                                as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay agrees
flce[trivial]                               as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay lossy 0.25

seed[False-float32-True-4-2048-50304-1024]  as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay too large

conv                                        as expected
    loss fresh · input STALE · weight latent · bias clobbered
      replay not covered

boom                                        as expected
    loss fresh · input STALE · weight latent · bias clobbered  replay failed

bad                                         DISAGREEMENT
    loss fresh · input STALE · weight latent · bias clobbered  replay DISAGREES

findings in cases that are as expected

error[LD002]: gradient of `bias` reads a copy of the logits that `ce_kernel`
    overwrote elsewhere
  --> train.py:41
   write:  %triton_kernel_call.2 overwrites operand 0, %transpose, at logical
           time 14
   read:   %input_reduce_fusion reads %loop_add_fusion at logical time 22
   replay: relative error 2, and 3 from the stale prediction
   help:   return the gradient as a declared output
   in:     flce[hidden]

the other cases

disagreement: `bad` on h100: `input` is stale by its schedule and fresh when it
    is replayed
   static:  stale
   finding: LD002: gradient of `bias` reads a copy of the logits that
            `ce_kernel` overwrote elsewhere
   write:   %triton_kernel_call.2 overwrites operand 0, %transpose, at logical
            time 14
   read:    %input_reduce_fusion reads %loop_add_fusion at logical time 22
   replay:  fresh: relative error 3e-07, tolerance 1e-05, the stale prediction
            1.2e+04 away
   help:    one of the two is wrong, and that is a bug in ligerdiag: trust
            neither for this output

covered: 720 instructions in 6 modules, 6 custom calls, 6 hidden writes, 474 of
    480 tags found again, buffer assignment of 6 modules
not covered: custom call `cublas$gemm` by its table entry (in 6 modules)
replayed: 3 of 6: 1 agree, 1 lossy, 1 disagree; 1 too large, 1 not covered, 1
    failed
too large: estimated above the bounds: `--full` replays them, `-v` shows the
    estimates
not covered by replay: convolution (`conv` on h100)
not replayed: the worker was aborted (`boom` on h100)
6 cases on h100 in 1.5 s: 5 as expected, 0 unexpected, 0 inconclusive, 1 where
    schedule and numbers disagree, 0 could not analyse
"""


def test_a_report_with_replays_at_eighty_columns() -> None:
    assert render_terminal(REPLAYED, width=80) == AT_EIGHTY


def test_where_there_is_room_replay_is_a_column_and_a_case_is_one_line() -> None:
    lines = render_terminal(REPLAYED, width=140).splitlines()
    assert lines[0].split() == ["case", "status", "replay", "h100"]
    words = [line.split("  ") for line in lines[:11] if line]
    found = {parts[0]: [part.strip() for part in parts[1:] if part.strip()][1] for parts in words}
    assert found == {
        "case": "replay",
        "flce[hidden]": "agrees",
        "flce[trivial]": "lossy 0.25",
        "seed[False-float32-True-4-2048-50304-1024]": "too large",
        "conv": "not covered",
        "boom": "failed",
        "bad": "DISAGREES",
    }


def test_verbose_puts_the_numbers_of_every_output_beside_its_verdict() -> None:
    case = make_case(replay=make_replay({**AGREEING, "input": make_numbers(Attribution.PARTLY_STALE, rows=8)}))
    text = render_terminal(make_report(case), verbose=True)
    assert "    weight  latent     replay fresh 3e-07\n" in text
    assert "    input   STALE      replay partly stale 6e+03  0 of 8 rows fresh, 0 stale\n" in text


def test_verbose_says_why_a_case_was_too_large() -> None:
    text = render_terminal(REPLAYED, verbose=True)
    assert (
        "too large: estimated 42 s and 6 GiB, more than 10 s or 4 GiB: `--full` replays it "
        "(`seed[False-float32-True-4-2048-50304-1024]` on h100)\n"
    ) in text


def test_a_device_stands_beside_the_replay() -> None:
    text = render_terminal(make_report(make_case(replay=make_replay(), device=make_device())), verbose=True)
    assert text.splitlines()[0].split() == ["case", "status", "replay", "device", "h100"]
    assert "    input   STALE      replay stale 1.2e+04  device stale 1.3e+04\n" in text


@pytest.mark.parametrize(
    ("outputs", "word"),
    [
        ({**AGREEING, "weight": make_numbers(Attribution.UNDECIDED)}, "agrees 3 of 4"),
        (dict.fromkeys(AGREEING, make_numbers(Attribution.UNDECIDED)), "undecided"),
        ({**AGREEING, "loss": make_numbers(Attribution.STALE)}, "DISAGREES"),
    ],
)
def test_agrees_is_said_only_of_outputs_that_could_be_told(outputs: dict[str, OutputNumbers], word: str) -> None:
    row = render_terminal(make_report(make_case(replay=make_replay(outputs)))).splitlines()[1]
    assert row.startswith(f"flce[hidden]  as expected  {word}  loss")


def test_precision_that_program_order_loses_shows_its_error_against_the_reference() -> None:
    numbers = {"loss": make_numbers(Attribution.LOSSY, error=1e-7)}
    case = make_case(outputs={"loss": Verdict.FRESH}, replay=make_replay(numbers, reference={"loss": 0.2468}))
    assert "  lossy 0.25  loss fresh\n" in render_terminal(make_report(case))


def test_targets_that_differ_in_their_replay_each_say_theirs() -> None:
    report = make_report(
        make_case(target="a100", replay=make_replay()),
        make_case(target="h100", replay=TOO_LARGE),
        targets=("a100", "h100"),
    )
    assert "  a100 agrees · h100 too large  " in render_terminal(report).splitlines()[1]


def test_without_a_replay_nothing_is_said_about_one() -> None:
    assert "replay" not in render_terminal(make_report(make_case(findings=(make_finding(),))), verbose=True)


def test_a_finding_quotes_the_first_case_of_its_group_that_has_numbers() -> None:
    cases = [
        make_case("a", findings=(make_finding(),), replay=TOO_LARGE),
        make_case("b", findings=(make_finding(),), replay=make_replay({"bias": make_numbers(Attribution.STALE)})),
    ]
    text = render_terminal(make_report(*cases))
    assert "   replay: in `b`: relative error 1.2e+04, equal to the stale prediction\n" in text


def test_why_a_case_was_not_run_on_the_device_is_said() -> None:
    device = make_device(outputs={}, verdicts={}, error="case `flce[hidden]` needs 8 GPUs, and this machine has 1")
    text = render_terminal(make_report(make_case(device=device)))
    assert "ran on a device: 0 of 1 compared with the intended result\n" in text
    assert "not compared: case `flce[hidden]` needs 8 GPUs, and this machine has 1 (`flce[hidden]` on h100)\n" in text
