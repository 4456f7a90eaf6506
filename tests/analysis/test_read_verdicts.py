"""Every read of an overwritten value is judged once, from the verdicts of the outputs."""

import pytest

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.explain import view_builder as view_accesses
from ligerdiag.analysis.explain.view_builder import compute_schedule_view
from ligerdiag.analysis.verdict.verdicts import ReadCause, ReadVerdict
from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import Place, ReadKind
from tests.analysis.pair_files import judge_pair


def read_of(context: Context, opcode: str) -> ReadVerdict:
    (read,) = [one for one in context.reads if context.followed.flow.instructions[one.step].opcode == opcode]
    return read


@pytest.mark.parametrize(
    ("label", "kind", "cause"),
    [
        ("the reader first", ReadKind.STALE, ReadCause.BLAMED),
        ("the kernel first", ReadKind.LATENT, ReadCause.BLAMED),
        ("the kernel first, by an edge", ReadKind.FRESH, ReadCause.OPERATION),
    ],
)
def test_a_read_has_the_verdict_and_the_evidence_of_its_output(label: str, kind: ReadKind, cause: ReadCause) -> None:
    context = judge_pair("reader_and_kernel", label)
    read = read_of(context, "abs")
    assert (read.write, read.kind, read.cause, read.place, read.outputs) == (0, kind, cause, Place.SAME_BYTES, ("y",))
    blamed = (*context.verdicts.stale, *context.verdicts.latent)
    assert (read.evidence,) == (blamed or (None,))


def test_a_read_is_unknown_if_the_effect_of_the_kernel_is() -> None:
    read = read_of(judge_pair("opaque_kernel", "the kernel first, by an edge"), "abs")
    assert (read.kind, read.cause, read.evidence) == (ReadKind.UNKNOWN, ReadCause.UNDECIDED, None)


def test_a_read_is_unknown_if_its_output_is() -> None:
    read = read_of(judge_pair("value_without_a_tag"), "abs")
    assert (read.kind, read.cause) == (ReadKind.UNKNOWN, ReadCause.UNKNOWN_OUTPUT)


def test_an_instruction_that_the_compiler_made_is_judged_by_its_users() -> None:
    read = read_of(judge_pair("reader_without_a_tag"), "abs")
    assert (read.kind, read.cause) == (ReadKind.FRESH, ReadCause.USERS)


def test_no_read_explains_an_output_that_misses_a_merged_call() -> None:
    context = judge_pair("merged_calls")
    assert context.verdicts.stale == ()
    assert context.verdicts.list_unexplained(0, Verdict.STALE) == ("second",)
    assert context.verdicts.list_unexplained(0, Verdict.CLOBBERED) == ()
    assert context.verdicts.misses_merged_call("second")
    assert not context.verdicts.misses_merged_call("first")
    assert not context.verdicts.misses_only_gone_calls("second")


def test_an_output_can_miss_nothing_but_a_call_that_is_gone() -> None:
    context = judge_pair("call_that_is_gone")
    assert context.verdicts.outputs["y"].verdict is Verdict.STALE
    assert context.verdicts.misses_only_gone_calls("y")
    assert not context.verdicts.misses_merged_call("y")


def test_a_shortened_view_keeps_the_worst_read_of_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_accesses, "MOST_READS", 1)
    context = judge_pair("copy_read_with_its_original")
    (shown,) = [one for one in compute_schedule_view(context).accesses if one.read is not ReadKind.NONE]
    assert (shown.read, shown.place) == (ReadKind.FRESH, Place.SAME_BYTES)
