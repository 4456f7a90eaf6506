"""Loads modules from files: a file that cannot be read is reported, never treated as absent."""

from pathlib import Path

import pytest

from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.load import load_module, may_hold_kernels
from ligerdiag.errors import ArtifactError
from tests.hlo.building import Builder

BUFFERS = b"BufferAssignment:\nallocation 0: size 16:\n"


def refuse(data: bytes, name: str) -> bytes:
    raise ArtifactError(f"`{name}`: no text in this test, {len(data)} bytes")


def make_files(folder: Path, program: bytes = b"", *, opcode: str = "negate") -> ModuleFiles:
    """Writes a scheduled module of two instructions and, if given, a program before optimizations."""
    builder = Builder()
    entry = builder.computation("entry")
    argument = builder.add(entry, "parameter")
    for instruction in (argument, builder.add(entry, opcode, [argument])):
        builder.define(instruction)
    builder.schedule(entry)
    (folder / "after.hlo.pb").write_bytes(builder.bytes())
    if program:
        (folder / "before.hlo.pb").write_bytes(program)
    return ModuleFiles(
        id="m",
        target="",
        optimized=(folder / "after.hlo.pb",),
        program=(folder / "before.hlo.pb",) if program else (),
    )


def test_an_unreadable_program_is_left_out_with_a_note(tmp_path: Path) -> None:
    loaded = load_module(make_files(tmp_path, b"nothing"), refuse)
    assert loaded.optimized.entry.root.opcode == "negate"
    assert loaded.programs == ()
    (note,) = loaded.notes
    assert note.startswith("`before.hlo.pb`: ")
    assert load_module(make_files(tmp_path), refuse).notes == ()


def test_a_buffer_assignment_instead_of_a_module_is_reported(tmp_path: Path) -> None:
    (note,) = load_module(make_files(tmp_path, BUFFERS), refuse).notes
    assert (
        note
        == "`before.hlo.pb` is a buffer assignment: pass the module's file, which has no `-buffer-assignment` in its name"
    )


@pytest.mark.parametrize(
    ("opcode", "program", "expected"),
    [
        ("negate", b"", False),
        ("custom-call", b"", True),
        ("negate", b"HloModule m, and a custom-call in it", True),
        ("negate", b"\x1f\x8b damaged", True),
        ("negate", b"HloModule m\n\nENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n", False),
        ("negate", b"HloModule m\n\nENTRY e {\n  ROOT a = f32[] param", True),
        ("negate", b"\x0a\x7f\x0a\x01m", True),
        ("negate", BUFFERS, True),
    ],
    ids=(
        "none",
        "in the schedule",
        "in the program only",
        "unreadable",
        "text",
        "text that is cut off",
        "a protobuf that is cut off",
        "no module",
    ),
)
def test_a_module_is_skipped_only_if_neither_program_names_a_custom_call(
    opcode: str, program: bytes, expected: bool, tmp_path: Path
) -> None:
    assert may_hold_kernels(make_files(tmp_path, program, opcode=opcode)) is expected
