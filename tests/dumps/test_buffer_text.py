"""XLA's text of a buffer assignment gives the same places as its protobuf, or none."""

from pathlib import Path

import pytest

from ligerdiag.dumps.text_details import parse_buffer_text
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import load_hlo, parse_hlo
from ligerdiag.hlo.shape import ShapeIndex
from tests.dumps.conftest import CASES, only
from tests.hlo.building import Builder, array, tuple_of


def load(folder: Path) -> tuple[HloModule, BufferAssignment, str]:
    files = only(folder)
    module, buffers = load_hlo(files.optimized[0])
    assert buffers is not None
    return module, buffers, files.buffers[0].read_text()


def name_places(module: HloModule, buffers: BufferAssignment) -> dict[tuple[str, ShapeIndex], Slice]:
    names = {i.id: i.name for c in module.computations.values() for i in c.instructions}
    return {
        (names[number], index): buffers.slices[slice_]
        for number, defined in buffers.definitions.items()
        for index, slice_ in defined
    }


@pytest.mark.parametrize("program", CASES)
def test_text_and_protobuf_give_the_same_assignment(program: str, dumps: Path) -> None:
    module, buffers, text = load(dumps / program)
    parsed = parse_buffer_text(text, module)
    places = name_places(module, buffers)
    assert name_places(module, parsed) == places
    assert len(places) > 10
    assert parsed.parameters == buffers.parameters
    assert parsed.constants == buffers.constants


def test_the_formats_of_other_versions_are_read(dumps: Path) -> None:
    module, _, text = load(dumps / "losses")
    older = text.replace(", page 0", "")
    assert older != text
    assert name_places(module, parse_buffer_text(older, module)) == name_places(module, parse_buffer_text(text, module))
    colored = text.replace(", page 0", ", color 1")
    assert parse_buffer_text(colored, module).slices


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("BufferAssignment:\n", "", "expected `BufferAssignment:`"),
        ("allocation 1:", "allocation 7:", "expected allocation 1 next but got allocation 7"),
        ("maybe-live-out", "maybe-else", "unknown word `maybe-else`"),
        (" value: <", " values: <", "is not in a known format"),
        ("(size=2048,offset=0)", "(size=2048,offset=1)", "beyond its allocation"),
        ("(size=2048,offset=0)", "(size=-1,offset=0)", "is not in a known format"),
        ("(size=2048,offset=0)", f"(size={10**30},offset=0)", "is not in a known format"),
    ],
)
def test_any_irregularity_makes_the_text_unusable(old: str, new: str, said: str, dumps: Path) -> None:
    module, _, text = load(dumps / "losses")
    assert old in text
    with pytest.raises(ArtifactError, match=said):
        parse_buffer_text(text.replace(old, new), module)


def test_a_text_truncated_anywhere_is_unusable(dumps: Path) -> None:
    module, _, text = load(dumps / "losses")
    lines = text.split("\n")
    whole = len(lines) - 1 if "" not in lines[:-1] else lines.index("")
    for end in range(1, whole):
        for cut in ("\n".join(lines[:end]), "\n".join(lines[:end])[:-1]):
            with pytest.raises(ArtifactError):
                parse_buffer_text(cut, module)
    last_defining = max(n for n, line in enumerate(lines[:whole]) if "fusion" in line or "copy" in line)
    for end in range(1, last_defining):
        with pytest.raises(ArtifactError, match=r"has no place for"):
            parse_buffer_text("\n".join(lines[:end]) + "\n", module)


def test_text_after_the_allocations_is_not_read(dumps: Path) -> None:
    module, _, text = load(dumps / "losses")
    older = text.rstrip("\n") + "\n\nTotal bytes used: 31072 (30.3KiB)\n\nUsed values:\n"
    assert name_places(module, parse_buffer_text(older, module)) == name_places(module, parse_buffer_text(text, module))


def test_the_assignment_of_another_module_is_refused(dumps: Path) -> None:
    _, _, text = load(dumps / "losses")
    other, _, _ = load(dumps / "flce")
    with pytest.raises(ArtifactError, match=r"names `\S+`, which is not in `"):
        parse_buffer_text(text, other)


def test_the_elements_of_a_tuple_argument_have_separate_places() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    pair = builder.add(entry, "parameter", shape=tuple_of(array(4), array(4)))
    builder.schedule(entry, pair)
    module, _ = parse_hlo(builder.bytes())
    lines = [
        f"allocation {number}: size 16, parameter 0, shape |f32[4]| at ShapeIndex {{{number}}}:\n"
        f" value: <{number + 2} {pair.name}{{{number}}} @0> (size=16,offset=0): f32[4]{{0}}\n"
        for number in range(2)
    ]
    parsed = parse_buffer_text(f"BufferAssignment:\n{''.join(lines)}\n", module)
    assert parsed.parameters == {0: (0, (0,)), 1: (0, (1,))}
    assert [index for index, _ in parsed.definitions[pair.id]] == [(0,), (1,)]


def test_an_argument_without_a_place_is_an_error() -> None:
    builder = Builder()
    entry = builder.computation("entry")
    used, unused = builder.add(entry, "parameter"), builder.add(entry, "parameter", parameter_number=1)
    builder.schedule(entry, used, unused)
    module, _ = parse_hlo(builder.bytes())
    text = f"BufferAssignment:\nallocation 0: size 16:\n value: <2 {used.name} @0> (size=16,offset=0): f32[4]{{0}}\n\n"
    with pytest.raises(ArtifactError, match=f"has no place for `{unused.name}`"):
        parse_buffer_text(text, module)
