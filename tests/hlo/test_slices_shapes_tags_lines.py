"""Slices of memory, shapes, tags and source lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ligerdiag.hlo.buffers import Slice
from ligerdiag.hlo.module import MAX_FRAMES, find_user_line, iterate_frames, parse_tag_path
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.shape import count_elements, iterate_leaves, render_shape
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.model.findings import SourceSpan
from tests.hlo.building import ARENA, Builder, array, find, tuple_of
from tests.hlo.conftest import Programs

slices = st.builds(Slice, st.integers(0, 1), st.integers(0, 12), st.integers(0, 6))


@given(slices, slices)
def test_slices_overlap_when_they_share_a_byte(a: Slice, b: Slice) -> None:
    shared = set(range(a.offset, a.offset + a.size)) & set(range(b.offset, b.offset + b.size))
    if a.size and b.size:
        assert a.overlaps(b) == (a.allocation == b.allocation and bool(shared))
    assert a.overlaps(b) == b.overlaps(a)


def test_overlapping_slices_are_found_in_their_allocation_only() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    values = [builder.add(entry, "parameter", parameter_number=n) for n in range(5)]
    spans = [(0, 16), (8, 16), (16, 16), (0, 64)]
    numbers = [builder.define(v, offset=o, size=s) for v, (o, s) in zip(values, spans, strict=False)]
    other = builder.define(values[4])
    _, buffers = parse_hlo(builder.bytes())
    assert buffers is not None
    assert [set(buffers.overlapping[n]) for n in numbers] == [{0, 1, 3}, {0, 1, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}]
    assert buffers.overlapping[other] == (other,)


def test_values_in_the_same_bytes_share_a_slice() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    x, y = builder.add(entry, "parameter"), builder.add(entry, "parameter", parameter_number=1)
    builder.define(x, offset=0)
    builder.define(y, offset=0)
    _, buffers = parse_hlo(builder.bytes())
    assert buffers is not None
    assert buffers.definitions == {x.id: (((), 0),), y.id: (((), 0),)}
    assert buffers.slices == (Slice(ARENA, 0, 16),)


def test_leaves_of_a_nested_tuple_are_in_order() -> None:
    shape = tuple_of(array(2), tuple_of(), tuple_of(array(3), tuple_of(array())))
    assert list(iterate_leaves(shape)) == [(0,), (2, 0), (2, 1, 0)]
    assert list(iterate_leaves(array(5))) == [()]
    assert render_shape(shape) == "(f32[2], (), (f32[3], (f32[])))"


def test_shapes_of_unknown_types_are_rendered() -> None:
    assert render_shape(ShapeProto(element_type=16, dimensions=[2, 3])) == "bf16[2,3]"
    assert render_shape(ShapeProto(element_type=17)) == "token[]"
    assert render_shape(ShapeProto(element_type=99, dimensions=[1])) == "type99[1]"


def test_a_scalar_has_one_element_and_an_empty_array_none() -> None:
    assert [count_elements(array(*d)) for d in ((), (3, 4), (3, 0))] == [1, 12, 0]


def test_tags_name_a_path_of_calls() -> None:
    assert parse_tag_path("jit(f)/call#ld15/add#ld85") == (15, 85)
    assert parse_tag_path("jit(f)/add") == ()
    assert parse_tag_path("#ld7") == (7,)
    assert parse_tag_path("a#ldx") == ()
    assert parse_tag_path("jit(f)/call#ld15/add#ld85;mul#ld84") == (15, 85)


@given(st.lists(st.integers(0, 10**6), max_size=5))
def test_tags_are_parsed_in_order(numbers: list[int]) -> None:
    assert parse_tag_path("/".join(f"op#ld{n}" for n in numbers)) == tuple(numbers)


def build_frames(parents: list[int], files: list[str]) -> tuple[Builder, object]:
    """Builds a module in which frame n is called from frame parents[n], in file files[n] at line 10 n."""
    builder = Builder()
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    x.metadata.stack_frame_id = 1
    index = builder.proto.hlo_module.stack_frame_index
    index.function_names.append("f")
    for number, (parent, file) in enumerate(zip(parents, files, strict=True), start=1):
        index.file_names.append(file)
        index.file_locations.add(file_name_id=number, function_name_id=1, line=10 * number)
        index.stack_frames.add(file_location_id=number, parent_frame_id=parent)
    return builder, x


@pytest.mark.parametrize(
    "installed",
    [
        "/v/site-packages/jax/a.py",
        "/usr/lib/python3/dist-packages/jax/a.py",
        "/libraries/jax_triton/triton_lib.py",
        "/libraries/jax/_src/pjit.py",
        "<frozen importlib>",
    ],
)
def test_the_innermost_frame_outside_of_packages_is_the_users(installed: str) -> None:
    """This also holds for packages in any other folder, as `pip install --target` leaves them."""
    builder, x = build_frames([2, 3, 0], [installed, "/home/train.py", "/home/main.py"])
    module, _ = parse_hlo(builder.bytes())
    instruction = find(module, x)  # type: ignore[arg-type]
    assert [frame.line for frame in iterate_frames(module, instruction)] == [10, 20, 30]
    line = find_user_line(module, instruction)
    assert line is not None
    assert (line.file, line.line, line.function) == ("/home/train.py", 20, "f")


@pytest.mark.parametrize(
    ("column", "end_line", "end_column", "expected"),
    [
        (4, 10, 9, SourceSpan(column=4, end_line=10, end_column=9)),
        (4, 12, 1, SourceSpan(column=4, end_line=12, end_column=1)),
        (4, 0, 0, None),  # a JAX or an XLA that gives no end
        (9, 10, 4, None),
        (-1, 10, 9, None),
    ],
)
def test_a_frame_has_the_columns_of_its_expression(
    column: int, end_line: int, end_column: int, expected: SourceSpan | None
) -> None:
    builder, x = build_frames([0], ["a.py"])
    location = builder.proto.hlo_module.stack_frame_index.file_locations[0]
    location.column, location.end_line, location.end_column = column, end_line, end_column
    module, _ = parse_hlo(builder.bytes())
    assert [frame.span for frame in iterate_frames(module, find(module, x))] == [expected]  # type: ignore[arg-type]


def test_cyclic_and_dangling_frames_end() -> None:
    builder, x = build_frames([2, 1], ["a.py", "b.py"])
    module, _ = parse_hlo(builder.bytes())
    assert len(list(iterate_frames(module, find(module, x)))) == MAX_FRAMES  # type: ignore[arg-type]
    builder, x = build_frames([9], ["a.py"])
    module, _ = parse_hlo(builder.bytes())
    assert len(list(iterate_frames(module, find(module, x)))) == 1  # type: ignore[arg-type]


def test_an_instruction_without_frames_has_no_line() -> None:
    builder = Builder()
    x = builder.add(builder.computation("entry"), "parameter")
    module, _ = parse_hlo(builder.bytes())
    assert find_user_line(module, find(module, x)) is None


def test_calls_without_a_tag_keep_their_positions() -> None:
    """Before JAX 0.7, the second call was sorted before the first, and read what the first had yet to overwrite."""
    builder = Builder()
    callee = builder.computation("callee")
    builder.add(callee, "parameter")
    entry = builder.computation("entry")
    x = builder.add(entry, "parameter")
    early, late = builder.add(entry, "sine", [x]), builder.add(entry, "cosine", [x])
    early.metadata.op_name, late.metadata.op_name = "sin#ld2", "cos#ld5"
    first = builder.add(entry, "call", [late], calls=[callee])
    second = builder.add(entry, "call", [early], calls=[callee])
    module, _ = parse_hlo(builder.bytes())
    ordered = [one.id for one in module.sort_in_program_order(module.entry)]
    assert ordered == [x.id, early.id, late.id, first.id, second.id]


def test_a_fused_instruction_has_the_line_of_the_program(calls: Programs) -> None:
    program = calls["branch"]
    source = Path(program.artifact.provenance.source).read_text().splitlines()
    lines = {
        source[line.line - 1].strip()
        for c in program.optimized.computations.values()
        for i in c.instructions
        if "/late/" in i.op_name and (line := find_user_line(program.optimized, i)) is not None
    }
    assert "late = h @ w.T" in lines
