"""Which changes to a module change its fingerprint, and which do not."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import pytest

from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.module_text import compute_fingerprint, fingerprint_lines, render_shape_with_layout
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, LayoutProto, ShapeProto
from tests.hlo.building import F32, Builder, array, tuple_of


@dataclass(frozen=True, slots=True)
class Draft:
    """A module with x + (x * y), whose product is in a fusion, and a kernel call on the sum."""

    builder: Builder
    fused: HloComputationProto
    entry: HloComputationProto
    x: HloInstructionProto
    y: HloInstructionProto
    fusion: HloInstructionProto
    call: HloInstructionProto

    def parse(self) -> HloModule:
        return parse_hlo(self.builder.bytes())[0]


def make_draft(*, first_id: int = 1) -> Draft:
    builder = Builder()
    builder._next = first_id
    fused = builder.computation("fused")
    inner = [builder.add(fused, "parameter", parameter_number=number) for number in (0, 1)]
    builder.add(fused, "multiply", inner)
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter", parameter_number=0)
    y = builder.add(entry, "parameter", parameter_number=1)
    fusion = builder.add(entry, "fusion", [x, y], calls=[fused])
    total = builder.add(entry, "add", [x, fusion])
    call = builder.add(entry, "custom-call", [total])
    call.custom_call_target = "kernel"
    call.backend_config = b"\x78\x9c payload"
    return Draft(builder, fused, entry, x, y, fusion, call)


def fingerprint(change: Callable[[Draft], object] | None = None, *, payloads: bool = True) -> str:
    draft = make_draft()
    if change is not None:
        change(draft)
    return compute_fingerprint(draft.parse(), payloads=payloads)


def rename(draft: Draft) -> None:
    for computation in (draft.fused, draft.entry):
        computation.name = f"other_{computation.name}"
        for instruction in computation.instructions:
            instruction.name = f"other_{instruction.name}"
            instruction.metadata.op_name = "jit(f)/mul#ld3"
            instruction.frontend_attributes.map["fusion_name"] = "f"


def swap_operands(draft: Draft) -> None:
    first, second = draft.fusion.operand_ids
    draft.fusion.operand_ids[:] = [second, first]


def test_names_ids_and_metadata_do_not_count() -> None:
    assert compute_fingerprint(make_draft(first_id=500).parse()) == fingerprint()
    assert fingerprint(rename) == fingerprint()


def test_estimates_in_a_backend_config_do_not_count() -> None:
    def set_cost(cost: int) -> Callable[[Draft], object]:
        config = f'{{"kind": "loop", "reification_cost": [{{"cycles": {cost}}}], "nested": {{"device_type": {cost}}}}}'
        return lambda draft: setattr(draft.fusion, "backend_config", config.encode())

    assert fingerprint(set_cost(1)) == fingerprint(set_cost(2)) != fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        swap_operands,
        lambda draft: setattr(draft.fusion, "fusion_kind", "kLoop"),
        lambda draft: setattr(draft.fused.instructions[-1], "opcode", "add"),
        lambda draft: draft.fusion.shape.CopyFrom(array(4, 1)),
        lambda draft: draft.fusion.shape.layout.minor_to_major.append(0),
        lambda draft: draft.call.control_predecessor_ids.append(draft.y.id),
        lambda draft: setattr(draft.entry, "root_id", draft.fusion.id),
        lambda draft: setattr(draft.call, "custom_call_target", "another"),
        lambda draft: setattr(draft.fusion, "backend_config", b'{"kind": "another"}'),
        lambda draft: draft.call.output_operand_aliasing.add(operand_index=0),
        lambda draft: draft.fusion.frontend_attributes.map.update({"_scheduling_group_id": "1"}),
    ],
    ids=[
        "operands", "fusion kind", "opcode", "shape", "layout", "control", "root", "target", "config", "aliasing",
        "frontend attribute",
    ],
)  # fmt: skip
def test_a_change_to_the_program_changes_the_fingerprint(change: Callable[[Draft], object]) -> None:
    assert fingerprint(change) != fingerprint()


def test_a_kernels_payload_counts_unless_it_is_left_out() -> None:
    def change(draft: Draft) -> None:
        draft.call.backend_config = b"\x78\x9c for another GPU"

    assert fingerprint(change) != fingerprint()
    assert fingerprint(change, payloads=False) == fingerprint(payloads=False)


def test_the_order_of_the_schedule_counts_and_the_order_of_the_list_does_not() -> None:
    def schedule(*places: int) -> Callable[[Draft], object]:
        return lambda draft: draft.builder.schedule(draft.entry, *(draft.entry.instructions[place] for place in places))

    def reorder(draft: Draft) -> None:
        first, second = draft.x.SerializeToString(), draft.y.SerializeToString()
        draft.entry.instructions[0].ParseFromString(second)
        draft.entry.instructions[1].ParseFromString(first)

    assert fingerprint(schedule(0, 1, 2, 3, 4)) != fingerprint(schedule(1, 0, 2, 3, 4))
    assert fingerprint(reorder) == fingerprint()


def test_a_line_has_numbers_instead_of_names_and_a_kind_without_numbers() -> None:
    draft = make_draft()
    payload = sha256(draft.call.backend_config).hexdigest()[:16]
    lines = fingerprint_lines(draft.parse())
    assert [line.text for line in lines] == [
        "0.0 = f32[4] parameter()",
        "0.1 = f32[4] parameter() parameter_number: 1",
        "0.2 = f32[4] fusion(0.0, 0.1) calls=1",
        "0.3 = f32[4] add(0.0, 0.2)",
        f'0.4 = f32[4] custom-call(0.3) root custom_call_target: "kernel" payload={payload}',
        "1.0 = f32[4] parameter()",
        "1.1 = f32[4] parameter() parameter_number: 1",
        "1.2 = f32[4] multiply(1.0, 1.1) root",
    ]
    assert [line.kind for line in lines[1:4]] == ["f32[4] parameter parameter_number: 1", "f32[4] fusion", "f32[4] add"]
    assert [line.instruction.opcode for line in lines[:2]] == ["parameter"] * 2


def test_a_shape_is_written_with_its_layout_and_memory_space() -> None:
    shape = ShapeProto(element_type=F32, dimensions=(4, 8), layout=LayoutProto(minor_to_major=(1, 0), memory_space=5))
    assert render_shape_with_layout(shape) == "f32[4,8]{1,0:S(5)}"
    assert render_shape_with_layout(tuple_of(array(4), array())) == "(f32[4], f32[])"
