"""Tags, aliases, opcodes and storage come from a file, and are checked before they are trusted."""

import pytest

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import is_tagged, strip_tags
from ligerdiag.hlo.parse import parse_hlo
from tests.hlo.building import Builder, array, tuple_of


def write_call(*output: int, operand: int = 0) -> Builder:
    """Builds a call of one operand, f32[4], with the result (f32[4], f32[2]) and one declared alias."""
    builder = Builder()
    entry = builder.computation("main")
    call = builder.add(entry, "custom-call", [builder.add(entry, "parameter")], tuple_of(array(4), array(2)))
    call.output_operand_aliasing.add(operand_index=operand, output_shape_index=output)
    return builder


@pytest.mark.parametrize(("output", "operand"), [((1,), 0), ((5,), 0), ((), 0), ((0, 0), 0), ((-1,), 0), ((0,), 7)])
def test_an_impossible_alias_is_invalid(output: tuple[int, ...], operand: int) -> None:
    module, _ = parse_hlo(write_call(*output, operand=operand).bytes())
    assert module.entry.root.operand_output_aliases == {}
    assert [one.output for one in module.invalid_aliases] == [output]


def test_a_possible_alias_is_used() -> None:
    module, _ = parse_hlo(write_call(0).bytes())
    assert module.entry.root.operand_output_aliases == {0: (0,)}
    assert not module.invalid_aliases


def test_an_update_may_declare_aliases() -> None:
    builder = Builder()
    main = builder.computation("main")
    parts = [builder.add(main, "parameter", shape=tuple_of(tuple_of(array(4)), array(4)))]
    builder.add(main, "async-update", parts, parts[0].shape).output_operand_aliasing.add(
        operand_index=0, output_shape_index=[1], operand_shape_index=[1]
    )
    assert not parse_hlo(builder.bytes())[0].invalid_aliases


@pytest.mark.parametrize("opcode", ["async-done", "copy-done", "all-reduce-done", "collective-permute-done"])
def test_a_done_of_a_tuple_that_starts_nothing_is_refused(opcode: str) -> None:
    builder = Builder()
    main = builder.computation("main")
    x = builder.add(main, "parameter")
    builder.add(main, opcode, [builder.add(main, "tuple", [x, x], tuple_of(array(4), array(4)))])
    with pytest.raises(ArtifactError, match=r"is a .*, but its operand `tuple.2` is a tuple, not a start"):
        parse_hlo(builder.bytes())


@pytest.mark.parametrize("opcode", ["Custom-Call", "custom_call", "zzz", ""])
def test_an_opcode_that_xla_does_not_have_is_refused(opcode: str) -> None:
    builder = Builder()
    builder.add(builder.computation("main"), opcode)
    with pytest.raises(ArtifactError, match="which XLA does not have"):
        parse_hlo(builder.bytes())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("jit(f)/add#ld1", "jit(f)/mul#ld2"), True),
        (("add#ld3;add#ld1", "mul#ld2"), True),
        (("jit(f)/add#ld1", "jit(f)/mul"), False),
        (("jit(f)/a;b/add#ld1", "jit(f)/mul#ld2"), False),
        (("jit(f)/x#ld7/add#ld1", "jit(f)/mul#ld2"), False),
        (("jit(f)/add#ld1", ""), False),
        (("jit(f)/add", "jit(f)/mul"), False),
    ],
)
def test_tags_are_complete_or_not_used(names: tuple[str, str], expected: bool) -> None:
    builder = Builder()
    entry = builder.computation("main")
    parameter = builder.add(entry, "parameter")
    builder.add(entry, "add", [parameter, parameter]).metadata.op_name = names[0]
    builder.add(entry, "multiply", [parameter, parameter]).metadata.op_name = names[1]
    assert is_tagged(parse_hlo(builder.bytes())[0]) is expected


def test_stripping_tags_restores_the_name_that_the_author_gave() -> None:
    assert strip_tags("jit(f)/a%3Bb%23ld3/add#ld1;mul#ld2") == "jit(f)/a;b#ld3/add"
