"""`programs/passed_on.py`: a loop passes on what its kernels left, as the replay and each program's reference show."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import CaseReport

PROGRAMS = Path(__file__).parent / "programs" / "passed_on.py"
RIGHT, WRONG = {Verdict.FRESH, Verdict.LATENT}, {Verdict.STALE, Verdict.CLOBBERED}


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> Mapping[str, CaseReport]:
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)
    return {case.id: case for case in api.check(options).cases}


def test_the_program_as_written_agrees_with_its_reference(reports: Mapping[str, CaseReport]) -> None:
    assert len(reports) == 13
    assert {name for name, one in reports.items() if any(found.rule == "LD016" for found in one.findings)} == set()


def test_an_output_is_called_wrong_exactly_if_its_numbers_are_wrong(reports: Mapping[str, CaseReport]) -> None:
    seen: dict[bool, int] = {True: 0, False: 0}
    for name, report in reports.items():
        assert report.replay is not None, name
        for output, verdict in report.outputs.items():
            is_right = report.replay.outputs[output].attribution is Attribution.FRESH
            assert verdict in (RIGHT if is_right else WRONG), (name, output, verdict)
            seen[is_right] += 1
    assert min(seen.values()) > 4, seen


def test_a_reader_after_the_loop_is_stale_if_xla_recomputes_its_array(reports: Mapping[str, CaseReport]) -> None:
    verdicts = reports["closed_over_and_made_anew"].outputs
    assert verdicts == {"total": Verdict.FRESH, "behind": Verdict.STALE}


@pytest.mark.parametrize(
    ("name", "output"),
    [("slices_returned", "slices"), ("logits_by_chunks", "gradient"), ("slices_kept", "gradient")],
)
def test_slices_that_xla_never_stacks_are_stale(name: str, output: str, reports: Mapping[str, CaseReport]) -> None:
    assert reports[name].outputs[output] is Verdict.STALE


def test_the_sliced_array_and_slices_saved_by_a_rule_keep_their_contents(reports: Mapping[str, CaseReport]) -> None:
    assert reports["slices_returned"].outputs["whole"] is Verdict.FRESH
    assert reports["slices_saved_by_a_rule"].outputs["gradient"] is Verdict.FRESH


def test_a_kernel_that_jax_hoists_out_of_a_differentiated_scan_is_missing_in_its_steps(
    reports: Mapping[str, CaseReport],
) -> None:
    assert reports["differentiated"].outputs == {"loss": Verdict.STALE, "gradient": Verdict.STALE}
    assert reports["differentiated_in_a_branch"].outputs["behind"] is Verdict.LATENT


def test_a_step_that_reads_the_kernels_copy_instead_of_the_argument_is_clobbered(
    reports: Mapping[str, CaseReport],
) -> None:
    assert reports["copied_in_each_step"].outputs == {"count": Verdict.CLOBBERED, "x": Verdict.CLOBBERED}
