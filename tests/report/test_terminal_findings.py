"""Findings on a terminal, and which of them are shown as one."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import CallPlace, Finding, ReadPlace, SourceLine, SourceSpan
from ligerdiag.model.report import Status
from ligerdiag.report.terminal.full_report import render_terminal
from tests.report.samples import make_case, make_finding, make_report


def test_equal_findings_of_expected_cases_are_shown_once() -> None:
    cases = [make_case(f"flce[{n}]", findings=(make_finding(), make_finding())) for n in range(9)]
    text = render_terminal(make_report(*cases))
    assert text.count("error[LD002]") == 1
    assert "in:    flce[0], flce[1], flce[2], flce[3], flce[4] and 4 more" in text


def test_verbose_shows_every_finding_by_itself() -> None:
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


def test_a_finding_reads_like_a_compiler_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("\n" * 40 + "    loss = flce(x, w)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    finding = make_finding(source=SourceLine(file=str(tmp_path / "train.py"), line=41))
    text = render_terminal(make_report(make_case(findings=(finding,), source_roots=(str(tmp_path),))))
    assert (
        "error[LD002]: gradient of `bias` reads a copy of the logits that `ce_kernel` overwrote elsewhere\n"
        "  --> train.py:41  loss = flce(x, w)\n"
        "   write: %triton_kernel_call.2 overwrites operand 0, %transpose, at logical time 14\n"
        "   read:  %input_reduce_fusion reads %loop_add_fusion at logical time 22\n"
        "   help:  return the gradient as a declared output\n"
        "   in:    flce[hidden]\n"
    ) in text


def make_read_after_write(folder: Path) -> Finding:
    """Returns a finding about a call in line 2 of a file and a read in line 4 of it."""
    file = folder / "train.py"
    code = "def step(x, y):\n    loss = jt.triton_call(x, kernel=k, out_shape=o)\n\n    return loss, (x * y).sum()\n"
    file.write_text(code, encoding="utf-8")
    call = SourceLine(file=str(file), line=2, span=SourceSpan(column=11, end_line=2, end_column=51))
    read = SourceLine(file=str(file), line=4, span=SourceSpan(column=18, end_line=4, end_column=23))
    return make_finding(source=call, call=CallPlace(line=call), reader=ReadPlace(line=read))


def test_the_call_and_the_first_read_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finding = make_read_after_write(tmp_path)
    text = render_terminal(make_report(make_case(findings=(finding,), source_roots=(str(tmp_path),))))
    assert (
        "  --> train.py:2\n"
        "   | loss = jt.triton_call(x, kernel=k, out_shape=o)\n"
        "   |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ overwritten here\n"
        "  --> train.py:4\n"
        "   | return loss, (x * y).sum()\n"
        "   |               ^^^^^ read here afterwards\n"
        "   write: "
    ) in text


def test_a_mark_that_does_not_fit_the_terminal_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = make_case(findings=(make_read_after_write(tmp_path),), source_roots=(str(tmp_path),))
    text = render_terminal(make_report(case), width=50)
    assert "overwritten here" not in text
    assert "  --> train.py:2  loss = jt.triton_call(x,\n      kernel=k, out_shape=o)\n" in text
    assert "^^^^^ read here afterwards" in text


def test_without_the_source_the_places_are_only_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = render_terminal(make_report(make_case(findings=(make_read_after_write(tmp_path),))))
    assert "  --> train.py:2\n   write: " in text
    assert "^" not in text


@pytest.mark.parametrize("file", ["/dev/zero", "/etc/passwd", "no_such.py", "\x00.py", "."])
def test_a_source_that_is_not_a_python_file_here_is_named_and_not_read(file: str) -> None:
    text = render_terminal(make_report(make_case(findings=(make_finding(source=SourceLine(file=file, line=1)),))))
    assert "root:" not in text
    assert "  --> " in text
