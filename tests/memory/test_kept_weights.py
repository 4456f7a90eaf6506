"""Findings about a donated state that is returned with its old weights name the right outputs, lines and remedies."""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Finding, SourceLine
from ligerdiag.model.memory import Copy, CopyCause, DonationFault
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.terminal.full_report import render_terminal

STATE = Path(__file__).parent / "programs" / "momentum_state.py"
LINES = STATE.read_text(encoding="utf-8").splitlines()


def check(cache: Path, *names: str, targets: tuple[str, ...] = ("h100",)) -> CheckReport:
    selectors = tuple(f"{STATE}::{name}" for name in names) or (str(STATE),)
    return api.check(api.CheckOptions(selectors=selectors, cache_directory=cache, replay=False, targets=targets))


@pytest.fixture(scope="module")
def cases(shared_cache: Path) -> dict[str, CaseReport]:
    return {case.id: case for case in check(shared_cache).cases}


def find(case: CaseReport, rule: str) -> Finding:
    (finding,) = [one for one in case.findings if one.rule == rule]
    return finding


def read(line: SourceLine | None) -> str:
    assert line is not None
    return LINES[line.line - 1].strip()


def list_copies(case: CaseReport) -> tuple[Copy, ...]:
    assert case.memory is not None
    return case.memory.copies


def test_a_void_donation_names_the_output_with_the_argument_s_path(cases: dict[str, CaseReport]) -> None:
    case = cases["momentum_in_bf16"]
    assert case.memory is not None
    void = {one.argument: one.why for one in case.memory.donations if one.fault is DonationFault.DTYPE}
    assert len(void) == 6
    for argument, why in void.items():
        assert why == f"output `{argument.replace('run', '0', 1)}` has the same shape, but is f32, not bf16"
    finding = find(case, "LD028")
    assert "output `0.velocity.block0.gate` has the same shape, but is f32, not bf16; the same holds" in finding.message
    assert read(finding.source).startswith("velocity = jax.tree.map")


def test_a_void_donation_without_such_an_output_has_the_line_that_reads_it(cases: dict[str, CaseReport]) -> None:
    for name, fault in (
        ("batch_of_another_shape", DonationFault.SHAPE),
        ("batch_of_another_dtype", DonationFault.SURPLUS),
    ):
        memory = cases[name].memory
        assert memory is not None
        void = {one.argument: one for one in memory.donations if one.fault is not None}
        assert {argument: one.fault for argument, one in void.items()} == {"data.x": fault, "data.labels": fault}
        assert "weights[name]" in read(void["data.x"].line)
        assert 'data["labels"]' in read(void["data.labels"].line)


def test_an_argument_that_is_only_returned_replaces_no_donated_one(cases: dict[str, CaseReport]) -> None:
    memory = cases["drop_half"].memory
    assert memory is not None
    (half,) = [one for one in memory.donations if one.argument == "half"]
    assert (half.fault, half.why) == (
        DonationFault.NO_OUTPUT,
        "each output of the same shape returns another argument unchanged, and no such output is bf16",
    )


def test_an_argument_returned_in_the_place_of_another_one_has_no_line(cases: dict[str, CaseReport]) -> None:
    """XLA does not record the line of a `return`."""
    for name in ("momentum_in_bf16", "rotate"):
        finding = find(cases[name], "LD027")
        assert "returns argument" in finding.message
        assert finding.source is None
        assert "not in one structure, and return the unchanged one first" in finding.help


def test_the_cure_for_a_rotated_structure_has_no_copy(cases: dict[str, CaseReport]) -> None:
    assert [one.cause for one in list_copies(cases["rotate"])] == [CopyCause.PAIRING]
    assert list_copies(cases["rotate_split"]) == ()


def test_a_copy_that_another_order_of_the_outputs_avoids_is_not_needed(cases: dict[str, CaseReport]) -> None:
    (copy,) = list_copies(cases["keep_old"])
    assert (copy.cause, copy.is_needed) == (CopyCause.RETURNED, False)
    assert copy.why == "output `1` returns argument `weights`, but output `0` has taken its bytes"
    finding = find(cases["keep_old"], "LD027")
    assert "return the unchanged argument before the output that replaces it" in finding.help
    assert read(finding.source) == "return weights - 0.1 * gradient, weights"
    assert list_copies(cases["keep_old_first"]) == ()


def test_a_copy_before_a_write_in_place_is_needed_in_every_order(cases: dict[str, CaseReport]) -> None:
    copies = list_copies(cases["keep_old_and_write"])
    assert [(one.cause, one.is_needed) for one in copies] == [
        (CopyCause.RETURNED, True),
        (CopyCause.READ_LATER, False),
    ]
    assert [one.is_needed for one in list_copies(cases["keep_old_first_and_write"])] == [True]
    finding = find(cases["keep_old_and_write"], "LD027")
    assert "return the unchanged argument before the output that replaces it" in finding.help


def test_a_reader_of_both_values_is_not_told_to_run_before_the_write(shared_cache: Path) -> None:
    program = STATE.with_name("paid_by_copies.py")
    options = api.CheckOptions(selectors=(f"{program}::delta_of_scatter",), cache_directory=shared_cache, replay=False)
    (case,) = api.check(options).cases
    finding = find(case, "LD027")
    assert "depends on the new value" in finding.message
    assert finding.help.startswith("compare only the part that changes")


def test_a_finding_that_is_the_same_on_each_target_is_shown_once(shared_cache: Path) -> None:
    report = check(shared_cache, "rotate", targets=("a100", "h100"))
    text = render_terminal(report)
    assert text.count("warning[LD027]") == 1
    assert "in:   rotate (a100, h100)" in text
    assert "TB/s of the target's memory, on a100" in text
    assert render_terminal(report, verbose=True).count("warning[LD027]") == 2
