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
REFUSED = Attempt(
    cure="declare",
    is_safe=True,
    proof=Proof.NOT_APPLICABLE,
    reason="`f` is passed on (mine.py:4)",
    refusal="`f` is passed on (mine.py:4)",
)
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
        "cure: `declare`, proved: every output is fresh, the replay agrees with these verdicts, and each output equals that "
        "of the program as written, run line by line with every write visible\n"
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
    text = render_fix(replace(ANSWER, best=None, attempts=(REFUSED,)), is_unsafe=False, is_written=False)
    assert "no cure is proved: `f` is passed on (mine.py:4)\n" in text


def test_a_refused_cure_is_described_for_a_change_by_hand() -> None:
    """The barrier can be applied and does not help, so the cures have different reasons."""
    idle = replace(LUCKY, cure="barrier", proof=Proof.REFUTED, reason="`y` is stale")
    answer = replace(ANSWER, best=None, attempts=(REFUSED, idle), remedies=("declare the write",))
    assert (
        "no cure is proved; `declare` cannot be applied: `f` is passed on (mine.py:4)\n  by hand: declare the write\n"
    ) in render_fix(answer, is_unsafe=False, is_written=False)


def test_a_refused_caller_of_a_cure_that_does_not_help_alone_is_named() -> None:
    partly = replace(REFUSED, proof=Proof.REFUTED, reason=f"`y` is stale; and {REFUSED.refusal}")
    answer = replace(ANSWER, best=None, attempts=(partly, LUCKY), remedies=("declare the write",))
    text = render_fix(answer, is_unsafe=True, is_written=False)
    assert "`declare` cannot be applied: `f` is passed on (mine.py:4)\n  by hand: declare the write\n" in text


def test_cures_that_do_not_help_are_not_proposed_by_hand() -> None:
    idle = replace(LUCKY, proof=Proof.REFUTED)
    answer = replace(ANSWER, best=None, attempts=(idle,), remedies=("copy the operand",))
    text = render_fix(answer, is_unsafe=False, is_written=False)
    assert "no cure is proved: none of the cures below helps\n" in text
    assert "by hand" not in text


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


def test_calls_of_which_nothing_is_proved_are_named() -> None:
    best = replace(BEST, also_changed=("the call of `k` (mine.py:3)",), not_changed=("the call of `m` (mine.py:5)",))
    text = render_fix(replace(ANSWER, best=best), is_unsafe=False, is_written=False)
    assert "  also changed, but not proved, as no finding of this case names it: the call of `k` (mine.py:3)\n" in text
    assert "  not changed, and may still overwrite an array behind XLA's back: the call of `m` (mine.py:5)\n" in text


def test_callers_that_are_changed_and_not_proved_are_named() -> None:
    best = replace(BEST, changes_callers=True, unproved_callers=("`step` (mine.py:40)",), remarks=("it loses a write",))
    text = render_fix(replace(ANSWER, best=best), is_unsafe=False, is_written=False)
    assert "  it loses a write\n" in text
    assert "  changed, but not run by this case, and so not proved: `step` (mine.py:40)\n" in text
    proved = render_fix(replace(ANSWER, best=replace(BEST, changes_callers=True)), is_unsafe=False, is_written=False)
    assert "not proved" not in proved


def test_a_reason_of_several_cures_is_said_once_and_followed_by_the_step_by_hand() -> None:
    other = replace(REFUSED, proof=Proof.OTHER_PROGRAM, reason="`y` would not be", next_step="return `x` as well")
    again = replace(other, cure="call-in-place")
    text = render_fix(replace(ANSWER, best=None, attempts=(other, again, LUCKY)), is_unsafe=False, is_written=False)
    assert text.endswith(
        "no cure is proved; `--unsafe` offers `copy`\n"
        "  by hand: return `x` as well\n"
        "tried:\n"
        "  declare and call-in-place: could not be proved: `y` would not be\n"
        "  copy: right by luck: nothing forces the order of `y`\n"
    )
    alone = render_fix(
        replace(ANSWER, best=None, attempts=(other, replace(LUCKY, proof=Proof.REFUTED))),
        is_unsafe=False,
        is_written=False,
    )
    assert "no cure is proved; `declare` could not be proved: `f` is passed on (mine.py:4)\n  by hand: return" in alone


def test_a_time_is_only_estimated_if_bytes_are_copied() -> None:
    best = replace(BEST, costs={"h100": replace(COST, copied=0)})
    assert "+0 bytes copied\n" in render_fix(replace(ANSWER, best=best), is_unsafe=False, is_written=False)
