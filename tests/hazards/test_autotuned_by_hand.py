"""LD010 on calls declared to have several configurations: which operands count as read, as shared, and as saved too
early.
"""

import pytest

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.effects.access import Access, CallEffects, OperandUse, ReadsBeforeWrite
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.model.findings import Finding
from ligerdiag.rules.programs.ld010_autotuned_in_place import check
from tests.analysis.by_hand import Program

LEGACY, FFI = "triton_kernel_call", "triton_kernel_call_ffi"


def judge_call(
    access: Access,
    *,
    configurations: int = 2,
    reads: ReadsBeforeWrite = ReadsBeforeWrite.YES,
    target: str = LEGACY,
    on_argument: bool = False,
    shared: bool = False,
    declared: bool = False,
    saved: tuple[tuple[int, int], ...] = ((0, 0),),
    reuses: bool = False,
) -> Context:
    """A kernel on -x, or on the argument x itself. shared: its output is in the bytes of its operand; reuses: in the
    bytes of x, which is donated.
    """
    programs = Program(), Program()
    for program in programs:
        entry = program.computation("entry")
        x = program.op(entry, "parameter")
        value = x if on_argument else program.op(entry, "negate", x, tag=1)
        call = program.kernel(entry, value, tag=2, target=target)
        if declared:
            call.output_operand_aliasing.add(operand_index=0)
    schedule = programs[1]
    schedule.define(x, offset=0)
    assignment = schedule.proto.buffer_assignment.buffer_allocations[0]
    assignment.is_entry_computation_parameter = on_argument or reuses
    if not on_argument:
        schedule.define(value, offset=None if reuses else 16)
    own = not (shared or declared or reuses)
    schedule.define(call, offset=None if own else 0 if on_argument or reuses else 16)
    schedule.schedule(schedule.proto.hlo_module.computations[0])

    def effects_of(call: HloInstruction) -> CallEffects:
        return CallEffects(
            kernel="tuned",
            operands=(access,),
            outputs=(Access.WRITE,),
            configurations=configurations,
            saved=saved if declared else (),
            operand_uses=(OperandUse(reads_before_write=reads),),
        )

    optimized, buffers = parse_hlo(schedule.bytes())
    assert buffers is not None
    return compute_context(
        program=parse_hlo(programs[0].bytes())[0],
        optimized=optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=("sums",),
        traced_calls=(),
    )


def find(context: Context) -> list[Finding]:
    return list(check(context))


@pytest.mark.parametrize(
    ("reads", "found"), [(ReadsBeforeWrite.YES, 1), (ReadsBeforeWrite.UNKNOWN, 1), (ReadsBeforeWrite.NO, 0)]
)
def test_an_operand_that_may_be_read_before_it_is_overwritten_counts(reads: ReadsBeforeWrite, found: int) -> None:
    assert len(find(judge_call(Access.READ_WRITE, reads=reads))) == found


def test_one_configuration_is_not_tried() -> None:
    assert find(judge_call(Access.READ_WRITE, configurations=1)) == []


def test_a_read_only_operand_counts_if_an_output_shares_its_bytes() -> None:
    (finding,) = find(judge_call(Access.READ, shared=True))
    assert "shares bytes with an output" in dict(finding.evidence)["kernel"]
    assert find(judge_call(Access.READ)) == []


@pytest.mark.parametrize("access", [Access.READ, Access.READ_WRITE])
def test_a_declared_operand_is_restored(access: Access) -> None:
    assert find(judge_call(access, declared=True)) == []


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ((), "the launcher does not see the alias"),
        (((0, 0),), ""),
        (((0, 1),), ""),
        (((0, 2),), "the same address as output 1"),
        (((1, 0),), "the launcher does not see the alias"),
    ],
)
@pytest.mark.parametrize("access", [Access.READ, Access.READ_WRITE])
def test_a_launcher_that_looks_for_the_alias_elsewhere_restores_nothing(
    access: Access, saved: tuple[tuple[int, int], ...], said: str
) -> None:
    """Buffers are numbered operands first: 0 is the operand, 1 the output."""
    findings = find(judge_call(access, declared=True, saved=saved))
    assert [said in dict(one.evidence)["kernel"] for one in findings] == [True] * bool(said)


def test_a_declared_operand_that_is_not_restored_counts_only_if_it_is_read() -> None:
    assert find(judge_call(Access.READ_WRITE, declared=True, saved=(), reads=ReadsBeforeWrite.NO)) == []


def test_an_unknown_kernel_is_left_to_its_own_rule() -> None:
    assert find(judge_call(Access.UNKNOWN)) == []


@pytest.mark.parametrize(("target", "on_argument", "found"), [(LEGACY, False, 1), (FFI, False, 0), (FFI, True, 1)])
def test_trials_before_the_program_runs_spoil_only_arguments(target: str, on_argument: bool, found: int) -> None:
    assert len(find(judge_call(Access.READ_WRITE, target=target, on_argument=on_argument))) == found


@pytest.mark.parametrize(("target", "found"), [(LEGACY, []), (FFI, [None])])
def test_trials_before_the_program_runs_spoil_a_donated_argument_whose_bytes_the_output_reuses(
    target: str, found: list[None]
) -> None:
    assert [finding.operand for finding in find(judge_call(Access.READ, target=target, reuses=True))] == found


@pytest.mark.parametrize(("target", "found"), [(LEGACY, 1), (FFI, 1)])
def test_either_launcher_spoils_an_argument_that_shares_bytes_with_an_output(target: str, found: int) -> None:
    assert len(find(judge_call(Access.READ, target=target, on_argument=True, shared=True))) == found
