"""`programs/checkpointed.py`: a recomputed value misses the kernel that JAX drops.

ligerdiag used to take the call for already done if one of its operands, read or overwritten, was an argument of
`jax.checkpoint`. It called gradients of a fused loss with labels fresh.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

PROGRAMS = Path(__file__).parent / "programs" / "checkpointed.py"


@pytest.fixture(scope="module")
def reports(shared_cache: Path) -> Mapping[str, CaseReport]:
    options = api.CheckOptions(selectors=(str(PROGRAMS),), cache_directory=shared_cache)
    return {case.id: case for case in api.check(options).cases}


def test_the_program_as_written_agrees_with_its_reference(reports: Mapping[str, CaseReport]) -> None:
    assert len(reports) == 7
    assert {name for name, one in reports.items() if any(found.rule == "LD016" for found in one.findings)} == set()
    assert {name for name, one in reports.items() if one.disagreements} == set()


@pytest.mark.parametrize(
    "name",
    ["overwrites_what_is_computed_again", "reads_what_the_body_closes_over", "called_in_a_function_of_its_own"],
)
def test_a_recomputed_value_misses_the_dropped_kernel(name: str, reports: Mapping[str, CaseReport]) -> None:
    assert reports[name].outputs == {"loss": Verdict.FRESH, "z": Verdict.STALE}
    assert "LD007" in {found.rule for found in reports[name].findings}


@pytest.mark.parametrize("name", ["overwrites_an_input", "overwrites_one_input_and_reads_another"])
def test_an_input_keeps_what_the_forward_pass_left_in_it(name: str, reports: Mapping[str, CaseReport]) -> None:
    assert reports[name].outputs == {"loss": Verdict.FRESH, "z": Verdict.LATENT}
    assert "LD007" not in {found.rule for found in reports[name].findings}


def test_a_saved_product_keeps_what_the_forward_pass_left_in_it(reports: Mapping[str, CaseReport]) -> None:
    """The gradient used to be stale: JAX drops the call on the saved product, but an equal call has run on its bytes."""
    report = reports["overwrites_what_a_policy_saves"]
    assert report.outputs == {"loss": Verdict.FRESH, "z": Verdict.FRESH}
    assert "LD007" not in {found.rule for found in report.findings}


def test_a_reader_of_the_saved_product_gets_the_contents_of_the_equal_call(reports: Mapping[str, CaseReport]) -> None:
    assert reports["reads_what_a_policy_saves"].outputs["z"] is Verdict.CLOBBERED


def test_a_dump_does_not_show_whether_a_dropped_kernel_is_intended(
    reports: Mapping[str, CaseReport], tmp_path: Path
) -> None:
    """A dump has no trace of a call that JAX dropped. The recomputed values used to be called fresh."""
    for name, report in reports.items():
        for form, dumped in (("unoptimized", "before"), ("optimized", "sm_9.0a_gpu_after")):
            source = Path(report.artifact) / f"{form}.hlo.pb"
            shutil.copyfile(source, tmp_path / f"module_0001.{name}.{dumped}_optimizations.hlo.pb")
    options = api.InspectOptions(paths=(tmp_path,), replay=False)
    found = {case.id.partition(".")[2]: case for case in api.inspect(options).cases}
    assert found.keys() == reports.keys()
    for name, case in found.items():
        loss, z = case.outputs.values()
        assert loss is Verdict.FRESH
        assert z in (reports[name].outputs["z"], Verdict.UNKNOWN), name
    unclear = found["overwrites_what_is_computed_again"].coverage.not_covered
    assert any("recomputed by `jax.checkpoint`" in note for note in unclear)
