"""A module rendered as text for people."""

from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.module_text import HloText
from ligerdiag.hlo.parse import parse_hlo
from tests.hlo.building import Builder, array, tuple_of


def write_module() -> tuple[HloModule, dict[str, str]]:
    """Returns a module with a fusion, a kernel with a declared output and a loop, and its lines by name."""
    builder = Builder()
    shape = array(4, 8)
    shape.layout.minor_to_major.extend([1, 0])
    fused = builder.computation("fused")
    builder.add(fused, "negate", [builder.add(fused, "parameter", shape=shape)], shape=shape)
    condition = builder.computation("condition")
    builder.add(condition, "parameter", shape=shape)
    builder.add(condition, "constant").literal.f32s.append(0.5)
    body = builder.computation("body")
    builder.add(body, "parameter", shape=shape)
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter", shape=shape)
    h = builder.add(entry, "fusion", [x], shape=shape, calls=[fused])
    h.fusion_kind = "kLoop"
    h.metadata.op_name = "secret/name"
    kernel = builder.add(entry, "custom-call", [h, x], shape=tuple_of(array(4), shape))
    kernel.custom_call_target = "double"
    kernel.backend_config = b"binary"
    kernel.output_operand_aliasing.add(output_shape_index=[1], operand_index=0)
    kernel.control_predecessor_ids.append(x.id)
    element = builder.add(entry, "get-tuple-element", [kernel], shape=shape, tuple_index=1)
    loop = builder.add(entry, "while", [element], shape=shape, calls=[body, condition])
    builder.add(entry, "broadcast", [loop], shape=shape).dimensions.append(1)
    builder.schedule(entry, x, h, kernel, element, loop, entry.instructions[-1])
    module, _ = parse_hlo(builder.bytes())
    lines = {line.split(" = ")[0].removeprefix("  "): line for _, line in HloText(module).render_module()}
    return module, lines


def test_a_line_shows_an_instruction_with_its_operands() -> None:
    _, lines = write_module()
    shape = "f32[4,8]{1,0}"
    assert lines["%fusion.7"] == f"  %fusion.7 = {shape} fusion(%parameter.6), kind=kLoop, calls=%fused"
    assert lines["%custom-call.8"] == (
        f"  %custom-call.8 = (f32[4], {shape}) custom-call(%fusion.7, %parameter.6),"
        ' custom_call_target="double", output_to_operand_aliasing={{1}: (0, {})}, control-predecessors={%parameter.6}'
    )
    assert lines["%get-tuple-element.9"].endswith("get-tuple-element(%custom-call.8), index=1")
    assert lines["%while.10"].endswith("while(%get-tuple-element.9), condition=%condition, body=%body")
    assert lines["ROOT %broadcast.11"].endswith("broadcast(%while.10), dimensions={1}")
    assert lines["ROOT %constant.4"].endswith("constant(0.5)")
    assert lines["%parameter.6"].endswith("parameter(0)")


def test_computations_are_in_order_with_a_header_and_a_brace() -> None:
    module, _ = write_module()
    lines = [line for _, line in HloText(module).render_module()]
    headers = [line for line in lines if line.endswith("{")]
    assert [header.split(" (")[0] for header in headers] == ["%fused", "%condition", "%body", "ENTRY %entry"]
    assert headers[0] == "%fused (parameter.1: f32[4,8]{1,0}) -> f32[4,8]{1,0} {"
    assert lines.count("}") == len(headers)


def test_exactly_the_lines_of_instructions_have_an_id() -> None:
    module, _ = write_module()
    numbered = [(number, line) for number, line in HloText(module).render_module() if number]
    names = {i.id: i.name for c in module.computations.values() for i in c.instructions}
    assert {number for number, _ in numbered} == names.keys()
    assert all(f"%{names[number]} = " in line for number, line in numbered)


def test_metadata_and_backend_configs_are_left_out() -> None:
    _, lines = write_module()
    assert "secret" not in "".join(lines.values())
    assert "binary" not in "".join(lines.values())


def test_names_lose_control_characters_and_nothing_is_escaped() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    builder.add(entry, "parameter").name = "a\x1b[31m<b>\n\u202ec"
    module, _ = parse_hlo(builder.bytes())
    (line,) = [line for number, line in HloText(module).render_module() if number]
    assert line == "  ROOT %a[31m<b> c = f32[4] parameter(0)"


def test_a_line_with_a_thousand_values_is_truncated() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    value = builder.add(entry, "parameter")
    builder.add(entry, "tuple", [value] * 1000, shape=tuple_of(*[array(4)] * 1000))
    module, _ = parse_hlo(builder.bytes())
    assert max(len(line) for _, line in HloText(module).render_module()) < 2100
