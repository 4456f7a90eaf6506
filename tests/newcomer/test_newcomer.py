"""Programs that a newcomer wrote (`project/`, kept as they were written): what is right is derived by hand.

In each program the loss is right in any order: the kernel itself computes it. A gradient that goes through a kernel in
`hidden` mode wants what the kernel left in its operand, and nothing forces XLA to read that: it is stale, or latent by
luck, and never fresh; nor clobbered, since no rule of JAX's saved what the kernel overwrites (a product does not save its
result). In `aliased` mode every output is fresh and nothing is found.
"""

import functools
import os
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.findings import Verdict
from ligerdiag.report.model import CaseReport, Status

PROJECT = Path(__file__).parent / "project"
MISSED = {Verdict.STALE, Verdict.LATENT}


@functools.cache
def check(file: str, cache: Path) -> dict[str, CaseReport]:
    """The reports of a file's cases by id, without replay."""
    before = Path.cwd()
    os.chdir(PROJECT)
    try:
        options = api.CheckOptions(selectors=(file,), replay=False, cache_directory=cache)
        return {case.id: case for case in api.check(options).cases}
    finally:
        os.chdir(before)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("newcomer")


@pytest.mark.parametrize(
    ("file", "case", "right"),
    [
        ("direct.py", "hidden-scaled", {"loss"}),
        ("direct.py", "hidden-direct", {"loss"}),
        ("direct_ref.py", "ref-hidden-scaled", {"loss"}),
        ("direct_ref.py", "ref-hidden-direct", {"loss"}),
        ("direct_lm.py", "lm-hidden-scaled", {"loss"}),
        ("direct_lm.py", "lm-hidden-direct", {"loss"}),
        ("direct_adam.py", "adam-hidden-scaled", {"2.loss", "1.0.count"}),
        ("direct_adam.py", "adam-hidden-direct", {"2.loss", "1.0.count"}),
        ("cases_dp2.py", "plain-hidden", {"loss"}),
        ("cases_dp2.py", "dp-hidden", {"loss"}),
        ("cases_dp2.py", "map-hidden", {"loss"}),
        ("cases_dp2.py", "accumulate-hidden", {"loss"}),
        ("cases_dp2.py", "accuracy-hidden", {"loss"}),
        ("seqvmap.py", "svmap-hidden", {"loss"}),
    ],
)
def test_a_gradient_through_a_hidden_kernel_is_stale_or_right_by_luck(
    file: str, case: str, right: set[str], cache: Path
) -> None:
    report = check(file, cache)[case]
    assert {name for name, verdict in report.outputs.items() if verdict is Verdict.FRESH} == right
    assert {verdict for name, verdict in report.outputs.items() if name not in right} <= MISSED
    assert "LD007" not in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("layers", ["hidden-hidden", "donate_hidden", "bf16_hidden"])
def test_adamw_of_a_transformer_with_two_hidden_kernels_is_stale_everywhere(layers: str, cache: Path) -> None:
    report = check("cases_tiny.py", cache)[layers]
    right = {name for name, verdict in report.outputs.items() if verdict is Verdict.FRESH}
    assert right == {"1.0.count", "2.loss"}
    assert set(report.outputs.values()) <= {Verdict.FRESH, *MISSED}


@pytest.mark.parametrize("layers", ["aliased-hidden", "scan_hidden", "remat_hidden"])
def test_a_norm_that_overwrites_its_cotangent_spoils_what_is_below_it_and_not_the_head(
    layers: str, cache: Path
) -> None:
    report = check("cases_tiny.py", cache)[layers]
    assert report.outputs["2.loss"] is Verdict.FRESH
    assert report.outputs["0.head"] is Verdict.FRESH
    assert report.outputs["0.embed"] in MISSED
    assert report.outputs["2.grad_norm"] in MISSED


@pytest.mark.parametrize(
    ("file", "case"),
    [
        ("direct.py", "aliased-scaled"),
        ("direct.py", "aliased-direct"),
        ("direct_ref.py", "ref-aliased-direct"),
        ("cases_dp2.py", "plain-aliased"),
        ("cases_dp2.py", "dp-aliased"),
        ("cases_dp2.py", "map-aliased"),
        ("cases_dp2.py", "accumulate-aliased"),
        ("cases_dp2.py", "accuracy-aliased"),
        ("cases_tiny.py", "aliased-aliased"),
        ("cases_tiny.py", "scan_aliased"),
        ("cases_tiny.py", "remat_aliased"),
        ("cases_tiny.py", "donate_aliased"),
        ("cases_tiny.py", "bf16_aliased"),
        ("seqvmap.py", "svmap-aliased"),
    ],
)
def test_a_declared_write_is_fresh_and_nothing_is_found(file: str, case: str, cache: Path) -> None:
    report = check(file, cache)[case]
    assert set(report.outputs.values()) == {Verdict.FRESH}
    assert report.findings == ()
    assert report.status is Status.NOTHING
