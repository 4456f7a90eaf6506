"""Files of two programs in one folder are never judged as one compilation, even if their names match."""

from pathlib import Path

import pytest

from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.load import load_module, may_hold_kernels
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.xla_pb2 import HloProto, ShapeProto
from tests.hlo.building import Builder, array, tuple_of


def refuse(data: bytes, name: str) -> bytes:
    raise ArtifactError(f"`{name}`: no text in this test, {len(data)} bytes")


def build(*parameters: ShapeProto, outputs: tuple[ShapeProto, ...] = (array(8, 4), array(8))) -> HloProto:
    builder = Builder()
    entry = builder.computation("entry")
    given = [
        builder.add(entry, "parameter", shape=shape, parameter_number=number)
        for number, shape in enumerate(parameters or (array(8, 4), array(4)))
    ]
    made = [builder.add(entry, "custom-call", given, shape=shape) for shape in outputs]
    for one in (*given, *made):
        builder.define(one)
    builder.add(entry, "tuple", made, shape=tuple_of(*outputs))
    builder.schedule(entry)
    builder.proto.hlo_module.name, builder.proto.hlo_module.id = "jit_step", 7
    return builder.proto


def place(proto: HloProto, *lines: int) -> HloProto:
    """Gives each custom call a line of `step.py`."""
    calls = [one for one in proto.hlo_module.computations[0].instructions if one.opcode == "custom-call"]
    for one, line in zip(calls, lines, strict=False):
        one.metadata.source_file, one.metadata.source_line = "/home/me/step.py", line
    return proto


def load(folder: Path, program: HloProto, optimized: HloProto | None = None) -> tuple[int, tuple[str, ...]]:
    optimized = optimized or build()
    before, after = folder / "module_0007.jit_step.before.pb", folder / "module_0007.jit_step.after.pb"
    before.write_bytes(program.SerializeToString())
    after.write_bytes(optimized.SerializeToString())
    loaded = load_module(ModuleFiles(id="m", target="", optimized=(after,), program=(before,)), refuse)
    return len(loaded.programs), loaded.notes


def renamed(name: str, number: int = 7) -> HloProto:
    proto = build()
    proto.hlo_module.name, proto.hlo_module.id = name, number
    return proto


OTHERS: dict[str, tuple[HloProto, str]] = {
    "name": (renamed("jit_other"), "it is called `jit_other`, but the optimized module is called `jit_step`"),
    "number": (renamed("jit_step", 9), "it is module 9 of its process, but the optimized module is module 7"),
    "fewer parameters": (
        build(array(8, 4)),
        "its parameters hold 1 array, but the optimized module's parameters hold 2",
    ),
    "more parameters": (
        build(array(8, 4), array(4), array(4)),
        "its parameters hold 3 arrays, but the optimized module's parameters hold 2",
    ),
    "smaller": (
        build(array(8, 2), array(4)),
        "its parameter 0 is f32[8,2], but in the optimized module it is f32[8,4]",
    ),
    "rank": (build(array(32), array(4)), "its parameter 0 is f32[32], but in the optimized module it is f32[8,4]"),
    "order": (build(array(4), array(8, 4)), "its parameter 0 is f32[4], but in the optimized module it is f32[8,4]"),
    "dtype": (
        build(ShapeProto(element_type=16, dimensions=(8, 4)), array(4)),
        "its parameter 0 is bf16[8,4], but in the optimized module it is f32[8,4]",
    ),
    "outputs": (build(outputs=(array(8, 4),)), "its outputs hold 1 array, but the optimized module's outputs hold 2"),
    "an output": (
        build(outputs=(array(8, 4), array(4))),
        "its output 1 is f32[4], but in the optimized module it is f32[8]",
    ),
}
SAME = {
    "itself": build(),
    "no number": renamed("jit_step", 0),
    "before it was partitioned": build(array(64, 4), array(16), outputs=(array(64, 4), array(8))),
    "a tuple of the same arrays": build(tuple_of(array(8, 4), array(4))),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_module_of_another_program_is_not_used(what: str, tmp_path: Path) -> None:
    program, said = OTHERS[what]
    number, notes = load(tmp_path, program)
    assert number == 0
    assert notes == (f"`module_0007.jit_step.before.pb` belongs to another program, so it is not used: {said}",)


@pytest.mark.parametrize("what", SAME)
def test_a_module_of_the_same_program_is_used(what: str, tmp_path: Path) -> None:
    assert load(tmp_path, SAME[what]) == (1, ())


def test_a_module_without_a_line_that_the_optimized_one_has_is_not_used(tmp_path: Path) -> None:
    number, notes = load(tmp_path, place(build(), 8, 7), place(build(), 8, 9))
    said = "none of its operations is from `step.py:9`, where the optimized module has one"
    assert number == 0
    assert notes == (f"`module_0007.jit_step.before.pb` belongs to another program, so it is not used: {said}",)


@pytest.mark.parametrize("lines", [(8, 9), (9, 8), ()], ids=["all lines", "another order", "no lines"])
def test_a_module_with_all_lines_of_the_optimized_one_is_used(lines: tuple[int, ...], tmp_path: Path) -> None:
    assert load(tmp_path, place(build(), *lines), place(build(), 8, 8)) == (1, ())


AFTER = "module_0007.jit_step.sm_9.0a_gpu_after_optimizations"


def write_forms(folder: Path, text: str) -> tuple[Path, Path]:
    """Writes an optimized module as a protobuf, and this text beside it."""
    proto, other = folder / f"{AFTER}.hlo.pb", folder / f"{AFTER}.txt"
    proto.write_bytes(build().SerializeToString())
    other.write_text(f"HloModule jit_step, is_scheduled=true\n\nENTRY %entry {{\n{text}}}\n")
    return proto, other


def test_forms_of_two_runs_are_not_one_module(tmp_path: Path) -> None:
    proto, text = write_forms(tmp_path, "  ROOT %other.1 = f32[8,4]{1,0} parameter(0)\n")
    with pytest.raises(
        ArtifactError, match=rf"`{AFTER}.txt` has an instruction `other.1` and `{AFTER}.hlo.pb` has not"
    ):
        load_module(ModuleFiles(id="m", target="", optimized=(proto, text)), refuse)
    assert load_module(ModuleFiles(id="m", target="", optimized=(proto,)), refuse).notes == ()


@pytest.mark.parametrize("ending", ["", "  ROOT %other.1 = f32[8,4]{1,0} para"], ids=["whole", "truncated"])
def test_a_text_without_an_instruction_of_its_own_is_of_the_same_module(ending: str, tmp_path: Path) -> None:
    name = build().hlo_module.computations[0].instructions[0].name
    proto, text = write_forms(tmp_path, f"  %{name} = f32[8,4]{{1,0}} parameter(0)\n")
    if ending:
        text.write_text(text.read_text().removesuffix("}\n") + ending)
    assert load_module(ModuleFiles(id="m", target="", optimized=(proto, text)), refuse).notes == ()


def test_a_kernel_in_one_form_is_a_kernel_of_the_module(tmp_path: Path) -> None:
    proto, text = write_forms(tmp_path, "  ROOT %k = f32[8] custom-call()\n")
    proto.write_bytes(proto.read_bytes().replace(b"custom-call", b"other-other"))
    assert may_hold_kernels(ModuleFiles(id="m", target="", optimized=(proto, text)))
    assert not may_hold_kernels(ModuleFiles(id="m", target="", optimized=(proto,)))
