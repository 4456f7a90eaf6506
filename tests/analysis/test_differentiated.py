"""`programs/differentiated.py`: the verdicts for an H100, the replay and the reference agree on every program.

H200s confirmed the verdicts output by output (docs/measurements). The reference shows that the intended program
computes the gradient.
"""

from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.report import CaseReport, Status

PROGRAMS = Path(__file__).parent / "programs" / "differentiated.py"
LATENT = (
    "direct scaled negated halved cast gradient_of custom_jvp reshaped accumulated descent narrow pulled_back_twice"
)
STALE = "pair relu gelu softmax rsqrt two_layers accumulated_by_hand in_backward in_backward_kept"
DROPPED = "checkpointed checkpointed_dots checkpointed_all"
CLOBBERED = "exp exp_scaled tanh exp_custom_jvp in_scanned_layers jitted_inside mapped twice multiplied"
BY_DAY = (
    "direct custom_jvp accumulated pair softmax in_backward checkpointed checkpointed_dots exp in_scanned_layers twice"
)

EACH_LEVEL = pytest.mark.parametrize(
    "reports",
    [BY_DAY, pytest.param("", marks=pytest.mark.nightly)],
    ids=["day", "night"],
    indirect=True,
    scope="module",
)
"""Runs a test with some of the programs by day, and with all of them by night."""


@pytest.fixture(scope="module")
def reports(shared_cache: Path, request: pytest.FixtureRequest) -> dict[str, CaseReport]:
    selectors = tuple(f"{PROGRAMS}::{name}" for name in request.param.split()) or (str(PROGRAMS),)
    options = api.CheckOptions(selectors=selectors, cache_directory=shared_cache)
    return {case.id: case for case in api.check(options).cases}


@EACH_LEVEL
@pytest.mark.parametrize(
    ("names", "verdict"), [(LATENT, "latent"), (STALE, "stale"), (DROPPED, "stale"), (CLOBBERED, "clobbered")]
)
def test_the_verdicts_on_gradients_match_the_hardware(names: str, verdict: str, reports: dict[str, CaseReport]) -> None:
    seen = [name for name in names.split() if name in reports]
    assert len(seen) > 1
    for name in seen:
        outputs = {key: one.value for key, one in reports[name].outputs.items() if key != "loss"}
        assert set(outputs.values()) == {verdict}, name


@EACH_LEVEL
def test_verdict_and_replay_agree_on_every_output(reports: dict[str, CaseReport]) -> None:
    assert len(reports) in {len(BY_DAY.split()), 42}
    assert [name for name, report in reports.items() if report.status is Status.DISAGREEMENT or report.error] == []


@EACH_LEVEL
def test_the_intended_program_computes_the_gradient_of_the_reference(reports: dict[str, CaseReport]) -> None:
    assert [name for name, report in reports.items() if "LD016" in {f.rule for f in report.findings}] == []


@EACH_LEVEL
def test_a_kernel_that_checkpoint_drops_is_reported(reports: dict[str, CaseReport]) -> None:
    for name in ("checkpointed", "checkpointed_dots"):
        assert "LD007" in {finding.rule for finding in reports[name].findings}
