"""Modules between two passes, by hand: errors that no schedule can mend, and values that every schedule gets right."""

import pytest

from ligerdiag.bisect.snapshots import Judgement, OrderSensitivity, judge_module
from ligerdiag.bisect.synthetic_schedules import SchedulePolicy
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto
from ligerdiag.model.findings import Verdict
from tests.analysis.by_hand import Program
from tests.hlo.building import array, tuple_of

FORCED, OPEN, LOST, UNKNOWN = (
    OrderSensitivity.FORCED,
    OrderSensitivity.OPEN,
    OrderSensitivity.LOST,
    OrderSensitivity.UNKNOWN,
)
EFFECTS = CallEffectsReader(cache=None, declared=(DeclaredEffects(name="double", writes=frozenset({0})),))


def start() -> tuple[Program, HloComputationProto, HloInstructionProto]:
    module = Program()
    entry = module.computation("entry")
    return module, entry, module.op(entry, "parameter")


def finish(module: Program, entry: HloComputationProto, *outputs: HloInstructionProto) -> Program:
    module.op(entry, "tuple", *outputs, shape=tuple_of(*[array(4)] * len(outputs)))
    return module


def write_program() -> Program:
    """Builds h = -x; the kernel overwrites h; y = |h|."""
    module, entry, x = start()
    h = module.op(entry, "negate", x, tag=1)
    sums = module.kernel(entry, h, tag=2)
    return finish(module, entry, sums, module.op(entry, "abs", h, tag=3))


def judge(program: Program, snapshot: Program, *names: str) -> Judgement:
    judgement = judge_module(
        program=parse_hlo(program.bytes())[0],
        module=parse_hlo(snapshot.bytes())[0],
        buffers=None,
        effects=EFFECTS,
        output_names=names,
    )
    assert judgement is not None
    return judgement


def test_an_order_that_nothing_forces_is_open() -> None:
    judgement = judge(write_program(), write_program(), "sums", "y")
    assert judgement.order_sensitivities == {"sums": FORCED, "y": OPEN}
    assert judgement.verdicts == {"sums": Verdict.FRESH, "y": Verdict.LATENT}
    assert SchedulePolicy.WRITTEN not in judgement.synthetic


@pytest.mark.parametrize("kind", ["data", "control"])
def test_an_edge_from_the_kernel_to_the_reader_forces_the_order(kind: str) -> None:
    snapshot, entry, x = start()
    h = snapshot.op(entry, "negate", x, tag=1)
    sums = snapshot.kernel(entry, h, tag=2)
    y = snapshot.op(entry, "abs", h, *([sums] if kind == "data" else []), tag=3)
    if kind == "control":
        y.control_predecessor_ids.append(sums.id)
    assert judge(write_program(), finish(snapshot, entry, sums, y), "sums", "y").order_sensitivities["y"] is FORCED


def test_a_reader_of_another_value_is_lost_in_every_order() -> None:
    """The kernel overwrites a copy, as after a partitioner."""
    snapshot, entry, x = start()
    h = snapshot.op(entry, "negate", x, tag=1)
    copied = snapshot.op(entry, "copy", h)
    sums = snapshot.kernel(entry, copied, tag=2)
    judgement = judge(
        write_program(), finish(snapshot, entry, sums, snapshot.op(entry, "abs", h, sums, tag=3)), "s", "y"
    )
    assert judgement.order_sensitivities == {"s": FORCED, "y": LOST}
    assert judgement.verdicts["y"] is Verdict.STALE


def test_readers_on_both_sides_of_the_kernel_can_be_right_in_program_order() -> None:
    """An output that is computed from both is wrong with the latest kernel call and with the earliest."""
    module, entry, x = start()
    h = module.op(entry, "negate", x, tag=1)
    before = module.op(entry, "sqrt", h, tag=2)
    sums = module.kernel(entry, h, tag=3)
    after = module.op(entry, "abs", h, tag=4)
    program = finish(module, entry, sums, module.op(entry, "add", before, after, tag=5))
    judgement = judge(program, program, "sums", "both")
    wrong = {policy: context.verdicts.outputs["both"].verdict for policy, context in judgement.synthetic.items()}
    assert wrong[SchedulePolicy.LATE] is Verdict.STALE
    assert wrong[SchedulePolicy.EARLY] is Verdict.CLOBBERED
    assert judgement.order_sensitivities["both"] is OPEN


def test_a_kernel_of_unknown_effect_makes_everything_it_touches_unknown() -> None:
    module, entry, x = start()
    h = module.op(entry, "negate", x, tag=1)
    sums = module.kernel(entry, h, tag=2, target="opaque")
    program = finish(module, entry, sums, module.op(entry, "abs", h, tag=3))
    assert judge(program, program, "sums", "y").order_sensitivities == {"sums": UNKNOWN, "y": UNKNOWN}


@pytest.mark.parametrize(("order", "expected"), [("ky", Verdict.LATENT), ("yk", Verdict.STALE)])
def test_the_schedule_of_a_module_gives_the_verdict_and_not_the_order_sensitivity(
    order: str, expected: Verdict
) -> None:
    snapshot, entry, x = start()
    h = snapshot.op(entry, "negate", x, tag=1)
    sums = snapshot.kernel(entry, h, tag=2)
    y = snapshot.op(entry, "abs", h, tag=3)
    finish(snapshot, entry, sums, y)
    root = entry.instructions[-1]
    snapshot.schedule(entry, x, h, *((sums, y) if order == "ky" else (y, sums)), root)
    judgement = judge(write_program(), snapshot, "sums", "y")
    assert judgement.order_sensitivities["y"] is OPEN
    assert judgement.verdicts["y"] is expected


def test_a_custom_call_of_shardy_with_several_values_is_not_judged() -> None:
    snapshot, entry, x = start()
    h = snapshot.op(entry, "negate", x, tag=1)
    sums = snapshot.kernel(entry, h, tag=2)
    boundary = snapshot.op(entry, "custom-call", sums, h, shape=tuple_of(array(4), array(4)))
    boundary.custom_call_target = "xla.sdy.LocalToGlobalShape"
    assert (
        judge_module(
            program=parse_hlo(write_program().bytes())[0],
            module=parse_hlo(snapshot.bytes())[0],
            buffers=None,
            effects=EFFECTS,
            output_names=("sums", "y"),
        )
        is None
    )
