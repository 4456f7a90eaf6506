"""The text that `fix` prints."""

from dataclasses import replace
from pathlib import Path

from ligerdiag.fix.records import Attempt, CaseFix, Cost, Proof
from ligerdiag.fix.words import render_fix
from ligerdiag.model.findings import Verdict

COST = Cost(reserved=65536, peak=0, copied=-1024, milliseconds=-0.002)
BEST = Attempt(
    cure="declare",
    is_safe=True,
    proof=Proof.PROVED,
    files={Path("/x/mine.py"): b""},
    diff="--- a/mine.py\n+++ b/mine.py\n",
    changed_lines=2,
    costs={"h100": COST},
)
LUCKY = Attempt(cure="copy", is_safe=False, proof=Proof.LATENT, reason="nothing forces the order of `y`")
ANSWER = CaseFix(
    case_id="mine",
    hazards=("LD001: it is stale",),
    attempts=(BEST, LUCKY),
    best=BEST,
    verdicts={"h100": {"y": Verdict.STALE}},
)


def test_the_answer_has_the_diff_and_its_cost() -> None:
    assert render_fix(ANSWER, is_unsafe=False, is_written=False) == (
        "mine: y STALE on h100\n"
        "  LD001: it is stale\n"
        "\n"
        "cure: `declare`, proved: every output is fresh, the replay agrees, and the program computes the same\n"
        "  cost: +64.0 KiB reserved, +0 bytes at the peak, -1.0 KiB copied; about -0.002 ms, estimated from the copied"
        " bytes\n"
        "\n"
        "--- a/mine.py\n"
        "+++ b/mine.py\n"
        "\n"
        "also tried:\n"
        "  copy: right by luck: nothing forces the order of `y`\n"
    )


def test_what_is_right_by_luck_is_only_mentioned() -> None:
    text = render_fix(replace(ANSWER, best=None, attempts=(LUCKY,)), is_unsafe=False, is_written=False)
    assert "no cure is proved; `--unsafe` offers `copy`\n" in text


def test_one_reason_for_all_cures_is_said_once() -> None:
    away = Attempt(cure="declare", is_safe=True, proof=Proof.NOT_APPLICABLE, reason="the line of the call is unknown")
    text = render_fix(replace(ANSWER, best=None, attempts=(away,)), is_unsafe=False, is_written=False)
    assert "no cure is known: the line of the call is unknown\n" in text


def test_an_unknown_output_is_not_called_right() -> None:
    text = render_fix(
        CaseFix(case_id="mine", verdicts={"h100": {"y": Verdict.UNKNOWN}}), is_unsafe=False, is_written=False
    )
    assert text == "mine: nothing to fix, but `y` is unknown\n"


def test_possible_callers_are_named() -> None:
    """Nine of them: eight are named."""
    places = tuple(f"`obj.run` (mine.py:{line})" for line in range(1, 10))
    best = replace(BEST, changes_callers=True, unseen=places)
    text = render_fix(replace(ANSWER, best=best), is_unsafe=False, is_written=False)
    assert "  not searched for callers: other projects, and files that do not end in `.py`, such as notebooks\n" in text
    assert "possible callers that are not changed: `obj.run` (mine.py:1), " in text
    assert "(mine.py:8) and 1 more, which `--format json` lists\n" in text
    assert "all its callers" not in text
