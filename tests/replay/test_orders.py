"""`check --orders`: fresh outputs are the same in every order that XLA may choose, latent ones are not."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.findings import OrderChange, OrderNumbers, Verdict
from ligerdiag.model.report import CaseReport, CheckReport
from ligerdiag.report.agreement import compute_disagreements, find_order_changes
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.spans import compute_text
from ligerdiag.report.terminal.summary import render_replays

MERGED = Path(__file__).parents[1] / "analysis" / "programs" / "merged.py"
DAILY = (
    "luck[joined_with_the_kernels]",
    "luck[state_that_a_loop_hands_on]",
    "luck[body_of_a_scan]",
    "forced[the_kernel_needs_the_reader]",
    "forced[a_square_on_both_sides]",
    "forced[a_square_on_both_sides_named_after_the_later]",
    "forced[another_branch]",
    "forced[body_whose_reader_needs_the_kernel]",
    "luck[array_passed_twice]",
)


def check(cache: Path, *names: str, orders: int = 12) -> CheckReport:
    selectors = tuple(f"{MERGED}::{name}" for name in names) or (str(MERGED),)
    return api.check(api.CheckOptions(selectors=selectors, orders=orders, cache_directory=cache))


def require_right(case: CaseReport) -> None:
    """Asserts the verdicts that the file's author derived; fresh outputs are stable, and latent ones change."""
    assert (case.mismatch, case.error, case.disagreements) == ("", "", ())
    assert case.replay is not None
    assert case.replay.orders is not None
    assert case.replay.orders.tried > 0
    changed = case.replay.orders.changed
    for name, verdict in case.outputs.items():
        if verdict in (Verdict.FRESH, Verdict.LATENT):
            assert (name in changed) is (verdict is Verdict.LATENT), (case.id, name)


def test_a_fresh_output_is_stable_and_a_latent_one_changes(shared_cache: Path) -> None:
    cases = check(shared_cache, *DAILY).cases
    assert len(cases) == len(DAILY)
    for case in cases:
        require_right(case)


@pytest.mark.nightly
def test_twins_and_forced_orders_are_stable(shared_cache: Path) -> None:
    for case in check(shared_cache, orders=20).cases:
        require_right(case)


def test_the_report_lists_the_orders_tried_and_the_outputs_changed(shared_cache: Path) -> None:
    report = check(shared_cache, *DAILY)
    text = "\n".join(map(compute_text, render_replays(report, width=None, verbose=False)))
    assert "legal orders beside the schedules' own: 4 of 18 outputs changed" in text
    assert "`other`, latent: relative difference 0.5 with the order" in text
    assert '"orders":' in render_json(report)


def test_without_the_option_no_order_is_tried(shared_cache: Path) -> None:
    (case,) = check(shared_cache, DAILY[0], orders=0).cases
    assert case.replay is not None
    assert case.replay.orders is None


def test_a_fresh_output_that_changes_is_a_bug(shared_cache: Path) -> None:
    (case,) = check(shared_cache, DAILY[3]).cases
    assert case.replay is not None
    moved = OrderNumbers(tried=1, changed={"other": OrderChange(order="kernels last (1)", error=0.5)})
    replay = replace(case.replay, orders=moved)
    assert find_order_changes(case.outputs, replay).keys() == {"other"}
    (found,) = compute_disagreements(case.outputs, (), replay, None)
    assert (found.output, found.evidence[1]) == (
        "other",
        ("orders", "relative difference 0.5 with the order kernels last (1)"),
    )
    assert find_order_changes({"other": Verdict.LATENT}, replay) == {}
