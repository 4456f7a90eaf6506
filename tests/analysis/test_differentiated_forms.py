"""`programs/differentiated_forms.py`: outputs that need the kernel's write miss a hidden one, and see a declared one.

By hand: the loss and the largest row come from the kernel itself, so they are right in any order. Everything else
depends on what the kernel left in the logits, and nothing forces XLA to read that. `around_shards` is the exception:
its psum is transposed to a psum of the cotangent, which XLA combines with that of the loss, so that the gradient has to
wait for the kernel. In `training_loop` each loss but the first depends on trained weights.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, Status

PROGRAMS = Path(__file__).parent / "programs" / "differentiated_forms.py"
RIGHT = {
    name: {"loss"} for name in ("with_optimized_remat", "fused_linear", "padded", "widened", "negative", "modules")
}
RIGHT |= {name: {"loss"} for name in ("over_a_batch", "rematerialized_layers")}
RIGHT |= {"two_results": {"loss", "largest"}, "around_shards": {"loss", "w"}, "training_loop": set()}
BY_DAY = ("fused_linear", "rematerialized_layers", "two_results", "around_shards", "training_loop")
NAMES = [*BY_DAY, *(pytest.param(name, marks=pytest.mark.nightly) for name in RIGHT if name not in BY_DAY)]
MISSED = {Verdict.STALE, Verdict.LATENT}


@pytest.fixture(scope="module")
def reports(shared_cache: Path, request: pytest.FixtureRequest) -> Mapping[str, CaseReport]:
    """Checks the forms of the day, and by night all forms."""
    names = BY_DAY if request.config.option.markexpr == "not nightly" else RIGHT
    selectors = tuple(f"{PROGRAMS}::{name}-*" for name in names)
    options = api.CheckOptions(selectors=selectors, cache_directory=shared_cache)
    return {case.id: case for case in api.check(options).cases}


@pytest.mark.nightly
def test_every_form_is_checked_hidden_and_declared(reports: Mapping[str, CaseReport]) -> None:
    assert set(reports) == {f"{name}-{mode}" for name in RIGHT for mode in ("hidden", "declared")}


@pytest.mark.parametrize("name", NAMES)
def test_only_outputs_that_need_the_hidden_write_miss_it(name: str, reports: Mapping[str, CaseReport]) -> None:
    report = reports[f"{name}-hidden"]
    assert {output for output, verdict in report.outputs.items() if verdict is Verdict.FRESH} == RIGHT[name]
    assert {verdict for output, verdict in report.outputs.items() if output not in RIGHT[name]} <= MISSED
    assert {"LD006"} <= {finding.rule for finding in report.findings}
    assert "LD007" not in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("name", NAMES)
def test_with_a_declared_write_everything_is_fresh(name: str, reports: Mapping[str, CaseReport]) -> None:
    report = reports[f"{name}-declared"]
    assert report.status is Status.CLEAN, report.error
    assert set(report.outputs.values()) == {Verdict.FRESH}
    assert report.findings == ()


def test_replay_agrees_with_the_verdicts_and_the_reference(reports: Mapping[str, CaseReport]) -> None:
    assert [name for name, report in reports.items() if report.status is Status.DISAGREEMENT or report.error] == []
    assert [name for name, report in reports.items() if report.replay is None or report.replay.state != "done"] == []
    assert [name for name, report in reports.items() if "LD016" in {f.rule for f in report.findings}] == []
