"""The table of opcodes is complete and consistent, and the only one."""

import ast
import re
from pathlib import Path

import pytest
from jaxlib import _hlo  # type: ignore[attr-defined]

import ligerdiag
from ligerdiag.hlo import opcodes
from ligerdiag.hlo.opcodes import OPCODES, TRAITS, Trait, having, strip_phase
from ligerdiag.hlo.parse import parse_hlo
from tests.hlo.building import Builder

PACKAGE = Path(ligerdiag.__file__).parent
IMPLEMENTATIONS = PACKAGE / "replay" / "ops"
"""These tables say how each opcode is computed; they are keyed by opcode, and stay there."""


def is_known_to_xla(opcode: str) -> bool:
    """Asks XLA's own parser, which looks at the opcode before it looks for operands."""
    shape = "()" if opcode == "tuple" else "u32[]"  # a shape that does not fit the opcode ends the process
    with pytest.raises(RuntimeError) as refused:
        _hlo.hlo_module_from_text(f"HloModule m\nENTRY e {{ ROOT r = {shape} {opcode} }}")
    return "Unknown opcode" not in str(refused.value)


def test_xla_knows_each_opcode_and_has_no_other() -> None:
    assert not is_known_to_xla("zzz")
    assert [opcode for opcode in sorted(OPCODES) if not is_known_to_xla(opcode)] == []
    assert len(OPCODES) == len([name for name in dir(_hlo.HloOpcode) if name.startswith("k")])


def test_each_opcode_has_one_entry() -> None:
    listed = [opcode for _, names in opcodes._ROWS for opcode in names.split()]
    assert sorted(listed) == sorted(set(listed))


def test_each_trait_is_used_and_described_in_one_line() -> None:
    assert [trait.name for trait in Trait if not having(trait)] == []
    (body,) = [
        node.body for node in ast.parse(Path(opcodes.__file__).read_text()).body if isinstance(node, ast.ClassDef)
    ]
    is_described = [
        isinstance(one, ast.Assign) and isinstance(other, ast.Expr) and "\n" not in ast.unparse(other)
        for one, other in zip(body[1::2], body[2::2], strict=True)
    ]
    assert is_described == [True] * len(Trait)


@pytest.mark.parametrize("opcode", ["collective-reduce", "mulhi"])
def test_an_opcode_that_only_a_newer_xla_has_is_parsed(opcode: str) -> None:
    builder = Builder()
    entry = builder.computation("main")
    builder.add(entry, opcode, [builder.add(entry, "parameter")])
    assert parse_hlo(builder.bytes())[0].entry.root.opcode == opcode


def test_phases_follow_from_the_name() -> None:
    assert having(Trait.START) == {one for one in OPCODES if one.endswith("-start")}
    assert having(Trait.DONE) == {one for one in OPCODES if one.endswith("-done")}
    assert having(Trait.UPDATE) == {one for one in OPCODES if one.endswith("-update")}


@pytest.mark.parametrize("trait", [Trait.OPERANDWISE, Trait.GATHERS, Trait.NAMES_DEVICES, Trait.REPLAYED])
def test_a_collective_is_the_same_in_its_asynchronous_form(trait: Trait) -> None:
    starts = {one for one in having(Trait.START) if strip_phase(one) in OPCODES and strip_phase(one) != "copy"}
    assert {one for one in starts if trait in TRAITS[one]} == {
        one for one in starts if trait in TRAITS[strip_phase(one)]
    }


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Trait.FORWARDS, Trait.NEEDS_OPERAND),
        (Trait.CONTROL_FLOW, Trait.RUNS_SCHEDULED),
        (Trait.STARTS_COMPUTATION, Trait.START),
        (Trait.STARTS_WITH_OPERANDS, Trait.COLLECTIVE),
        (Trait.COMMUTES, Trait.ELEMENTWISE),
        (Trait.BARRIER, Trait.FORWARDS),
        (Trait.BARRIER, Trait.HANDS_ON),
        (Trait.BARRIER, Trait.LAUNCHES_NOTHING),
        (Trait.LAUNCHES_NOTHING, Trait.VIEW),
        (Trait.REPLAYED, Trait.COLLECTIVE),
    ],
)
def test_a_trait_implies_a_wider_one(narrow: Trait, wide: Trait) -> None:
    assert having(narrow) < having(wide)


def test_only_bitcasts_and_dones_of_copies_and_computations_differ_in_passing_operands_on() -> None:
    assert having(Trait.FORWARDS) ^ having(Trait.HANDS_ON) == {"bitcast", "copy-done", "async-done"}


def test_an_opcode_that_launches_nothing_has_no_phase_and_calls_nothing() -> None:
    others = having(
        Trait.START, Trait.DONE, Trait.UPDATE, Trait.CONTROL_FLOW, Trait.CALLEE_TAKES_OPERANDS, Trait.COLLECTIVE
    )
    assert having(Trait.LAUNCHES_NOTHING).isdisjoint(others)


def list_private_sets(path: Path) -> list[str]:
    """Returns the places that list three or more opcodes in a set, tuple or list, or as alternatives of one pattern."""
    found: list[str] = []
    source = path.read_text()
    if len({*re.findall(r"[\"']([a-z0-9-]+)[\"']", source)} & OPCODES) < 3:
        return found
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Set(elts=elements) | ast.Tuple(elts=elements) | ast.List(elts=elements):
                values = [one.value for one in elements if isinstance(one, ast.Constant)]
            case ast.MatchOr(patterns=patterns):
                values = [
                    p.value.value
                    for p in patterns
                    if isinstance(p, ast.MatchValue) and isinstance(p.value, ast.Constant)
                ]
            case _:
                continue
        named = [one for one in values if isinstance(one, str) and one in OPCODES]
        if len(named) >= 3:
            found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {', '.join(named)}")
    return found


def test_no_other_file_lists_opcodes() -> None:
    """Tile IR has operations, and JAX has primitives, of which some have names that HLO has, too; `float_bits`
    follows bits through the logical operations.
    """
    names = ("effects/tile_ir.py", "reduce/expressions.py", "reduce/edits.py", "replay/opaque_runs/float_bits.py")
    foreign = {PACKAGE / name for name in names}
    others = [path for path in PACKAGE.rglob("*.py") if IMPLEMENTATIONS not in path.parents and path not in foreign]
    assert [found for path in sorted(others) for found in list_private_sets(path)] == []


def test_a_private_set_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    path = tmp_path / "one.py"
    pattern = 'match B:\n    case "add" | "and" | "or":\n        pass\n'
    path.write_text('A = {"add", "tuple", "copy"}\nB = ("add", "x", "copy")\n' + pattern)
    assert list_private_sets(path) == ["one.py:1: add, tuple, copy", "one.py:4: add, and, or"]
