"""The judgement of one call from its declaration, its kernel's code and its runs."""

from collections.abc import Mapping
from typing import Any

import pytest

from ligerdiag.effects.access import Access, CallEffects, OperandUse, WriteCoverage, create_unknown_effects
from ligerdiag.effects.declared import parse_declarations
from ligerdiag.inspection.call_judgement import CallJudge, JudgedCall, judge_unread
from ligerdiag.model.opcheck_report import CallRun, FoundCall, OperandRun, OutputRun, ProblemKind, RunFailure, Seen
from tests.replay.xla_cpu import parse_text

MODULE = """\
HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  ROOT k = f32[4] custom-call(x), custom_call_target="k"ALIASING
}"""
ALIASED = ", output_to_operand_aliasing={{}: (0, {})}"
UNKNOWN = create_unknown_effects(kernel="k", operands=1, outputs=1, reason="no code")


def make_code(access: Access, coverage: WriteCoverage = WriteCoverage.COMPLETE) -> CallEffects:
    return CallEffects(
        kernel="k", operands=(access,), outputs=(Access.WRITE,), output_uses=(OperandUse(coverage=coverage),)
    )


def make_run(written: Seen, read: Seen = Seen.YES, left: Seen = Seen.NO, **words: Any) -> CallRun:
    operand = OperandRun(
        elements=4, is_written=written, is_read=read, written=2 * (written is Seen.YES), is_guarded=True
    )
    return CallRun(
        runs=6, operands=(operand,), outputs=(OutputRun(elements=4, is_left=left, left=int(left is Seen.YES)),), **words
    )


def judge(
    code: CallEffects,
    run: CallRun | None = None,
    *,
    aliasing: str = "",
    not_run: str = "",
    failure: RunFailure = RunFailure.NONE,
    requires_run: bool = False,
    effects: Mapping[str, object] | None = None,
    target: str = "k",
) -> JudgedCall:
    text = MODULE.replace('target="k"', f'target="{target}"')
    module = parse_text(text.replace("ALIASING", aliasing))
    ((_, call),) = module.iterate_custom_calls()
    found = FoundCall(kernel="k", run=run, not_run=not_run, failure=failure)
    declared = parse_declarations(effects or {})
    return CallJudge(found=found, call=call, effects=code, declarations=declared, requires_run=requires_run).judge()


@pytest.mark.parametrize(
    ("code", "written", "kinds"),
    [
        (Access.READ, Seen.NO, []),
        (Access.READ, Seen.YES, [ProblemKind.UNDECLARED_WRITE, ProblemKind.CONTRADICTION]),
        (Access.READ_WRITE, Seen.NO, [ProblemKind.UNDECLARED_WRITE]),
        (Access.READ_WRITE, Seen.YES, [ProblemKind.UNDECLARED_WRITE]),
        (Access.WRITE, Seen.YES, [ProblemKind.UNDECLARED_WRITE, ProblemKind.CONTRADICTION]),
        (Access.UNKNOWN, Seen.YES, [ProblemKind.UNDECLARED_WRITE]),
        (Access.UNKNOWN, Seen.NO, []),
    ],
)
def test_an_undeclared_write_is_a_problem_whoever_shows_it(
    code: Access, written: Seen, kinds: list[ProblemKind]
) -> None:
    judged = judge(make_code(code), make_run(written))
    assert [one.kind for one in judged.problems] == kinds
    assert bool(judged.not_covered) == (code is Access.UNKNOWN and written is Seen.NO)


def test_a_declared_write_needs_no_known_code() -> None:
    judged = judge(UNKNOWN, aliasing=ALIASED)
    assert (judged.problems, judged.not_covered) == ([], [])


def test_unknown_code_is_not_covered_however_often_the_call_ran() -> None:
    assert judge(UNKNOWN).not_covered == ["whether `k` writes operand 0: no code"]
    assert judge(UNKNOWN, make_run(Seen.NO)).not_covered == ["whether `k` writes operand 0: no code"]


def test_declared_effects_decide_for_unknown_code() -> None:
    judged = judge(UNKNOWN, effects={"k": {"writes": []}})
    assert (judged.problems, judged.not_covered) == ([], [])
    assert judge(UNKNOWN, effects={"*": {"writes": "aliased"}}).not_covered == []


def test_aliases_are_not_trusted_for_a_kernel_whose_code_cannot_be_read() -> None:
    (line,) = judge(UNKNOWN, effects={"*": {"writes": "aliased"}}, target="triton_kernel_call").not_covered
    assert line.startswith('whether `k` writes operand 0: `writes = "aliased"` is declared, but not trusted: the call')
    aliases = ALIASED + ", custom_call_has_side_effect=true"
    assert judge(UNKNOWN, effects={"*": {"writes": "aliased"}}, aliasing=aliases).not_covered == []
    untrusted = judge(UNKNOWN, effects={"*": {"writes": "aliased"}}, aliasing=", custom_call_has_side_effect=true")
    assert untrusted.not_covered[0].endswith("the call has side effects; no code")


def test_effects_that_name_an_operand_that_the_call_lacks_decide_nothing() -> None:
    judged = judge(UNKNOWN, effects={"k": {"writes": [1]}})
    assert [one.kind for one in judged.problems] == [ProblemKind.NO_OPERAND]
    assert judged.problems[0].message == "`effects` for `k` name operand 1, which `k` lacks"
    assert judged.not_covered == ["whether `k` writes operand 0: no code"]


def test_effects_that_leave_out_a_write_are_wrong_even_if_an_output_aliases_the_operand() -> None:
    judged = judge(make_code(Access.READ_WRITE), aliasing=ALIASED, effects={"k": {"writes": []}})
    assert [one.message for one in judged.problems] == [
        "`k` writes operand 0, which `writes` in its declared effects leaves out"
    ]


def test_a_run_that_leaves_what_the_code_writes_contradicts_it() -> None:
    judged = judge(make_code(Access.READ), make_run(Seen.NO, left=Seen.YES))
    assert [one.kind for one in judged.problems] == [ProblemKind.CONTRADICTION]


def test_an_output_that_may_be_left_is_a_note_unless_a_run_shows_it_written() -> None:
    code = make_code(Access.READ, WriteCoverage.UNKNOWN)
    assert judge(code).notes == ["whether `k` writes all of its output 0 does not follow from its code"]
    assert judge(code, make_run(Seen.NO)).notes == []


def test_a_call_that_was_not_run_and_runs_that_differ_are_noted() -> None:
    assert judge(make_code(Access.READ), not_run="no way").notes == ["`k` was not observed in a run: no way"]
    unsteady = make_run(Seen.NO, unsteady=("output 0",))
    (note,) = judge(make_code(Access.READ), unsteady).notes
    assert note == "two runs of `k` with the same operands left different bytes in output 0"


@pytest.mark.parametrize(
    "words", [{"requires_run": True}, {"failure": RunFailure.CALL}, {"failure": RunFailure.PROGRAM}]
)
def test_a_run_that_failed_or_is_required_is_not_covered(words: Any) -> None:
    judged = judge(make_code(Access.READ), not_run="no way", **words)
    assert (judged.not_covered, judged.notes) == (["`k` was not observed in a run: no way"], [])


def test_a_call_that_cannot_be_read_is_not_covered() -> None:
    judged = judge_unread(FoundCall(kernel="k", is_dropped=True), "no custom call")
    assert judged.not_covered == ["`k`: no custom call"]
    assert [one.kind for one in judged.problems] == [ProblemKind.DROPPED]
