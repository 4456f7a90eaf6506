"""Each scheduling policy puts kernel calls at other positions."""

import pytest

from ligerdiag.bisect.synthetic_schedules import SchedulePolicy, schedule_module
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.by_hand import Program
from tests.hlo.building import array, tuple_of

LATE, EARLY, WRITTEN = SchedulePolicy.LATE, SchedulePolicy.EARLY, SchedulePolicy.WRITTEN


def write_module() -> HloModule:
    """Builds a kernel call with operations around it.

    `first` comes after the call by its tag and before it in the list of instructions; `last` needs the kernel's result;
    a control edge puts `edge` before the call.
    """
    module = Program()
    entry = module.computation("entry")
    x = module.op(entry, "parameter")
    first = module.op(entry, "abs", x, tag=5)
    edge = module.op(entry, "sqrt", x, tag=4)
    kernel = module.kernel(entry, x, tag=3)
    kernel.control_predecessor_ids.append(edge.id)
    copied = module.op(entry, "copy", x)
    last = module.op(entry, "negate", kernel, tag=6)
    module.op(entry, "tuple", first, last, copied, shape=tuple_of(*[array(4)] * 3))
    return parse_hlo(module.bytes())[0]


def order(module: HloModule, policy: SchedulePolicy) -> list[str]:
    scheduled = schedule_module(module, lambda call: call.proto.custom_call_target == "double", policy)
    assert scheduled.is_scheduled
    assert sorted(i.id for i in scheduled.entry.sequence) == sorted(i.id for i in module.entry.instructions)
    return [one.opcode for one in scheduled.entry.sequence if one.opcode not in ("parameter", "tuple")]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (LATE, ["abs", "sqrt", "copy", "custom-call", "negate"]),
        (EARLY, ["sqrt", "custom-call", "abs", "copy", "negate"]),
        (WRITTEN, ["copy", "sqrt", "custom-call", "abs", "negate"]),
    ],
)
def test_a_kernel_call_moves_as_far_as_operands_and_control_edges_allow(
    policy: SchedulePolicy, expected: list[str]
) -> None:
    assert order(write_module(), policy) == expected


@pytest.mark.parametrize(("policy", "expected"), [(LATE, ["abs", "call"]), (EARLY, ["call", "abs"])])
def test_a_call_of_a_computation_with_a_kernel_moves_like_a_kernel_call(
    policy: SchedulePolicy, expected: list[str]
) -> None:
    module = Program()
    inner = module.computation("inner")
    module.kernel(inner, module.op(inner, "parameter"), tag=1)
    entry = module.computation("entry")
    x = module.op(entry, "parameter")
    called = (module.op(entry, "abs", x, tag=2), module.op(entry, "call", x, calls=[inner], tag=3))
    module.op(entry, "tuple", *called, shape=tuple_of(array(4), array(4)))
    assert order(parse_hlo(module.bytes())[0], policy) == expected


def test_a_fusion_comes_where_its_last_operation_was_written() -> None:
    module = Program()
    fused = module.computation("fused")
    fused.is_fusion_computation = True
    inside = module.op(fused, "negate", module.op(fused, "parameter"), tag=1)
    module.op(fused, "abs", inside, tag=9)
    entry = module.computation("entry")
    x = module.op(entry, "parameter")
    fusion = module.op(entry, "fusion", x, calls=[fused])
    kernel = module.kernel(entry, x, tag=4)
    module.op(entry, "tuple", fusion, kernel, shape=tuple_of(array(4), array(4)))
    assert order(parse_hlo(module.bytes())[0], WRITTEN) == ["custom-call", "fusion"]
