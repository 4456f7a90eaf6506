"""Paths from an instruction back to the values that it reads."""

from ligerdiag.bisect.evidence import ValuePaths, render_instruction, render_path
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.by_hand import Program
from tests.hlo.building import array, tuple_of


def write_module() -> HloModule:
    """Builds h = -x, kernel(|h|), and a fusion of sqrt(floor(h)) + the kernel's result."""
    module = Program()
    fused = module.computation("fused")
    fused.is_fusion_computation = True
    h_inside, sums_inside = (module.op(fused, "parameter", parameter_number=n) for n in (0, 1))
    root = module.op(fused, "sqrt", module.op(fused, "floor", h_inside))
    module.op(fused, "add", root, sums_inside)
    entry = module.computation("entry")
    h = module.op(entry, "negate", module.op(entry, "parameter"))
    sums = module.kernel(entry, module.op(entry, "abs", h), tag=1)
    fusion = module.op(entry, "fusion", h, sums, calls=[fused])
    module.op(entry, "tuple", fusion, shape=tuple_of(array(4)))
    return parse_hlo(module.bytes())[0]


def find(module: HloModule, opcode: str) -> HloInstruction:
    return next(i for c in module.computations.values() for i in c.instructions if i.opcode == opcode)


def opcodes(path: tuple[HloInstruction, ...]) -> list[str]:
    return [one.opcode for one in path]


def test_a_path_leaves_a_fusion_by_its_parameter_and_enters_it_by_its_result() -> None:
    module = write_module()
    paths, target = ValuePaths(module), find(module, "negate")
    assert opcodes(paths.find(find(module, "sqrt"), lambda one: one is target)) == [
        "sqrt",
        "floor",
        "parameter",
        "negate",
    ]
    floor = find(module, "floor")
    assert opcodes(paths.find(module.entry.root, lambda one: one is floor)) == [
        "tuple",
        "fusion",
        "add",
        "sqrt",
        "floor",
    ]


def test_no_path_leads_through_an_instruction_to_be_avoided() -> None:
    module = write_module()
    overwritten, call = find(module, "abs"), find(module, "custom-call")
    paths = ValuePaths(module)
    assert paths.find(find(module, "add"), lambda one: one is overwritten)
    assert paths.find(find(module, "add"), lambda one: one is overwritten, around=call) == ()


def test_the_common_source_nearest_to_the_other_value_is_found() -> None:
    module = Program()
    entry = module.computation("entry")
    far = module.op(entry, "exponential", module.op(entry, "parameter"))
    near = module.op(entry, "negate", far)
    reader = module.op(entry, "add", far, near)
    module.op(entry, "tuple", reader, module.op(entry, "abs", near), shape=tuple_of(array(4), array(4)))
    parsed = parse_hlo(module.bytes())[0]
    path = ValuePaths(parsed).find_common(find(parsed, "add"), find(parsed, "abs"))
    assert opcodes(path) == ["add", "negate"]


def test_a_common_source_is_not_searched_beyond_an_instruction_to_be_avoided() -> None:
    module = write_module()
    paths, call = ValuePaths(module), find(module, "custom-call")
    reader, other = find(module, "add"), find(module, "abs")
    assert paths.find_common(reader, other)[-1] is other
    assert paths.find_common(reader, other, around=call)[-1] is find(module, "negate")


def test_a_parameter_is_not_a_common_source() -> None:
    module = Program()
    entry = module.computation("entry")
    x = module.op(entry, "parameter")
    module.op(
        entry, "tuple", module.op(entry, "abs", x), module.op(entry, "sqrt", x), shape=tuple_of(array(4), array(4))
    )
    parsed = parse_hlo(module.bytes())[0]
    assert ValuePaths(parsed).find_common(find(parsed, "abs"), find(parsed, "sqrt")) == ()


def test_the_result_of_a_loop_comes_from_the_result_of_its_body() -> None:
    module = Program()
    pair = tuple_of(array(4), array(4))
    body = module.computation("body")
    carried = module.op(body, "parameter", shape=pair)
    second = module.op(body, "abs", module.op(body, "get-tuple-element", carried, tuple_index=0))
    module.op(body, "tuple", second, second, shape=pair)
    condition = module.computation("condition")
    module.op(condition, "compare", module.op(condition, "parameter", shape=pair))
    entry = module.computation("entry")
    x = module.op(entry, "parameter")
    loop = module.op(entry, "while", module.op(entry, "tuple", x, x, shape=pair), shape=pair, calls=[body, condition])
    module.op(entry, "get-tuple-element", loop, tuple_index=1)
    parsed = parse_hlo(module.bytes())[0]
    target = find(parsed, "abs")
    assert len(ValuePaths(parsed).find(parsed.entry.root, lambda one: one is target)) == 2


def test_a_rendered_path_shows_operations_that_compute_and_its_end() -> None:
    module = write_module()
    end = find(module, "negate")
    text = render_path(ValuePaths(module).find(find(module, "sqrt"), lambda one: one is end))
    assert text == f"{find(module, 'floor').name} f32[4] <- {end.name} f32[4]"


def test_a_rendered_call_shows_the_target_of_the_kernel() -> None:
    module = write_module()
    call = find(module, "custom-call")
    assert render_instruction(call) == f"{call.name} = f32[4] double({find(module, 'abs').name})"
