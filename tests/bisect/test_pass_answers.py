"""The step to blame, from hand-written snapshots: h = -x, a kernel that overwrites h, and y = |h|."""

from dataclasses import replace
from pathlib import Path

from ligerdiag.bisect.passes import PassAnswer, PassBlame, describe_answers, explain_output
from ligerdiag.bisect.snapshots import CompilerStep, History, Judgement, SensitivityChange, judge_module
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.model.findings import Verdict
from tests.analysis.by_hand import Program
from tests.hlo.building import array, tuple_of

EFFECTS = CallEffectsReader(cache=None, declared=(DeclaredEffects(name="double", writes=frozenset({0})),))


def write(kind: str) -> Program:
    """tied: y needs the kernel's result; copied: the kernel gets a copy; ky, yk: scheduled in this order; open: not
    scheduled.
    """
    module = Program()
    entry = module.computation("entry")
    x = module.op(entry, "parameter")
    h = module.op(entry, "negate", x, tag=1)
    operand = module.op(entry, "copy", h) if kind == "copied" else h
    sums = module.kernel(entry, operand, tag=2)
    y = module.op(entry, "abs", h, *([sums] if kind == "tied" else []), tag=3)
    root = module.op(entry, "tuple", sums, y, shape=tuple_of(array(4), array(4)))
    if kind in ("ky", "yk"):
        module.schedule(entry, x, h, *((sums, y) if kind == "ky" else (y, sums)), root)
    return module


def judge(kind: str) -> Judgement:
    judgement = judge_module(
        program=parse_hlo(write("open").bytes())[0],
        module=parse_hlo(write(kind).bytes())[0],
        buffers=None,
        effects=EFFECTS,
        output_names=("sums", "y"),
    )
    assert judgement is not None
    return judgement


def make_history(*kinds: str) -> History:
    judged = [judge(kind) for kind in kinds]
    steps = [None, *[CompilerStep(name=f"pass-{n}", pipeline="pipeline", number=n) for n in range(1, len(kinds))]]
    changes = [
        SensitivityChange(step=step, path=Path(kind), before=judged[n - 1] if n else None, after=judged[n])
        for n, (step, kind) in enumerate(zip(steps, kinds, strict=True))
    ]
    return History(changes=tuple(changes), snapshots=len(kinds), judged=len(kinds), skipped=())


def explain(verdict: Verdict, *kinds: str) -> PassAnswer:
    return explain_output(make_history(*kinds), "y", verdict)


def names(answer: PassAnswer) -> list[str]:
    return [step.name for step in answer.steps]


def test_the_step_that_removes_the_forced_order_is_named() -> None:
    answer = explain(Verdict.LATENT, "tied", "open", "ky")
    assert (answer.blame, names(answer)) == (PassBlame.LATENT, ["pass-1"])
    assert describe_answers([answer]) == [
        "`y` is latent, right by luck: `pass-1` (0001, in `pipeline`) removed what forced the order"
    ]
    facts = dict(answer.evidence)
    assert "needs the kernel's result: `custom-call_ld2" in facts["before"]
    assert "needs no result of `double`" in facts["after"]


def test_the_step_that_fixes_the_wrong_order_comes_before_the_one_that_allowed_it() -> None:
    answer = explain(Verdict.STALE, "tied", "open", "ky", "yk")
    assert (answer.blame, names(answer)) == (PassBlame.ORDERED, ["pass-3", "pass-1"])
    facts = dict(answer.evidence)
    assert facts["before"] != facts["after"]


def test_if_nothing_ever_forced_the_order_only_the_scheduler_is_to_blame() -> None:
    answer = explain(Verdict.STALE, "open", "yk")
    assert names(answer) == ["pass-1"]
    assert describe_answers([answer])[0].endswith("and the program as XLA got it does not force the order")


def test_the_last_loss_counts_and_earlier_losses_are_named() -> None:
    answer = explain(Verdict.STALE, "tied", "copied", "tied", "copied")
    assert (answer.blame, names(answer)) == (PassBlame.LOST, ["pass-3"])
    (sentence,) = describe_answers([answer])
    assert sentence.endswith(
        "; `pass-1` (0001, in `pipeline`) lost it for a time, `pass-2` (0002, in `pipeline`) restored it"
    )
    assert "the order was forced until then" in sentence


def test_no_step_is_to_blame_for_a_value_lost_from_the_start() -> None:
    answer = explain(Verdict.STALE, "copied")
    assert (answer.blame, names(answer)) == (PassBlame.LOST, [])
    assert "already in the program that XLA got" in describe_answers([answer])[0]


def test_a_value_restored_in_the_wrong_order_is_the_fault_of_the_schedule() -> None:
    assert names(explain(Verdict.STALE, "open", "copied", "yk")) == ["pass-2"]


def test_no_step_is_to_blame_for_a_value_lost_in_the_first_judged_snapshot() -> None:
    history = make_history("copied")
    first = replace(history.changes[0], step=CompilerStep(name="shardy-xla", pipeline="partitioner", number=8))
    answer = explain_output(replace(history, changes=(first,)), "y", Verdict.STALE)
    assert names(answer) == []
    assert describe_answers([answer]) == [
        "`y` is stale already after `shardy-xla` (0008, in `partitioner`), and earlier snapshots were not judged"
    ]


def test_a_verdict_that_the_snapshots_do_not_show_is_unexplained() -> None:
    assert explain(Verdict.STALE, "open", "ky").blame is PassBlame.UNEXPLAINED
    assert explain(Verdict.UNKNOWN, "open", "ky").blame is PassBlame.UNEXPLAINED
    assert explain(Verdict.LATENT, "tied").blame is PassBlame.UNEXPLAINED


def test_outputs_with_one_reason_share_a_sentence() -> None:
    answer = explain(Verdict.STALE, "copied")
    (sentence,) = describe_answers([answer, answer])
    assert sentence.startswith("`y` and `y` are stale already")
