"""Files of two programs in one folder are never judged as one compilation, even if their names match."""

from pathlib import Path

import pytest

from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.load import load_module
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


def load(folder: Path, program: HloProto) -> tuple[int, tuple[str, ...]]:
    optimized = build()
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
    "name": (renamed("jit_other"), "one is called `jit_other` and the other `jit_step`"),
    "number": (renamed("jit_step", 9), "one is module 9 of its process and the other module 7"),
    "fewer parameters": (build(array(8, 4)), "one has 1 arrays as parameters and the other 2"),
    "more parameters": (build(array(8, 4), array(4), array(4)), "one has 3 arrays as parameters and the other 2"),
    "smaller": (build(array(8, 2), array(4)), "parameter 0 is f32[8,2] in one and f32[8,4] in the other"),
    "rank": (build(array(32), array(4)), "parameter 0 is f32[32] in one and f32[8,4] in the other"),
    "order": (build(array(4), array(8, 4)), "parameter 0 is f32[4] in one and f32[8,4] in the other"),
    "dtype": (
        build(ShapeProto(element_type=16, dimensions=(8, 4)), array(4)),
        "parameter 0 is bf16[8,4] in one and f32[8,4] in the other",
    ),
    "outputs": (build(outputs=(array(8, 4),)), "one has 1 arrays as outputs and the other 2"),
    "an output": (build(outputs=(array(8, 4), array(4))), "output 1 is f32[4] in one and f32[8] in the other"),
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
    assert notes == (f"`module_0007.jit_step.before.pb` is of another program and not used: {said}",)


@pytest.mark.parametrize("what", SAME)
def test_a_module_of_the_same_program_is_used(what: str, tmp_path: Path) -> None:
    assert load(tmp_path, SAME[what]) == (1, ())
