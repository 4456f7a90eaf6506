"""Declarations: their syntax, the effects they settle, and the cases where the IR overrides them."""

import tomllib
import zlib

import pytest

from ligerdiag.effects import triton_call_pb2
from ligerdiag.effects.access import (
    Access,
    CallEffects,
    Neighbours,
    ReadsBeforeWrite,
    WriteCoverage,
    create_unknown_effects,
)
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.declared import Contradiction, DeclaredEffects, apply_declarations, parse_declarations
from ligerdiag.errors import InputError

NONE, READ, WRITE, BOTH, UNKNOWN = Access.NONE, Access.READ, Access.WRITE, Access.READ_WRITE, Access.UNKNOWN

TOML = """
[tool.ligerdiag.effects.my_ffi_target]
writes = [0]
reads = [1, 2]

[tool.ligerdiag.effects."ns.other$target"]
writes = []
"""


def test_a_table_of_a_project_file_is_read() -> None:
    assert parse_declarations(tomllib.loads(TOML)["tool"]["ligerdiag"]["effects"]) == (
        DeclaredEffects(name="my_ffi_target", writes=frozenset({0}), reads=frozenset({1, 2})),
        DeclaredEffects(name="ns.other$target", writes=frozenset()),
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"f": 3}, r"expected a table such as { writes = \[0\] } for \[tool.ligerdiag.effects.f\] but got 3"),
        ({"f": {}}, "expected `writes` in .*: the numbers of the operands that the call overwrites, \\[\\] for none"),
        ({"f": {"reads": [0]}}, "expected `writes` in"),
        ({"f": {"write": [0]}}, "got `write`, did you mean `writes`"),
        ({"f": {"writes": [0], "colour": 1}}, "got `colour`$"),
        ({"f": {"writes": 0}}, 'expected a list of operand numbers or "aliased" for `writes` in .* but got 0'),
        ({"f": {"writes": [], "reads": "aliased"}}, "expected a list of operand numbers for `reads` in .* but got 'al"),
        (
            {"f_*": {"writes": [0]}},
            'expected `writes = "aliased"` in .*: a pattern may match calls with different operands',
        ),
        ({"f": {"writes": "01"}}, "but got '01'"),
        ({"f": {"writes": [-1]}}, "expected operand numbers from 0 on for `writes` in .* but got -1"),
        ({"f": {"writes": [True]}}, "but got True"),
        ({"f": {"writes": [0.0]}}, "but got 0.0"),
        ({"f": {"writes": [10**9]}}, "but got 1000000000"),
        ({"f": {"writes": [2, 1, 2]}}, "got 2 twice"),
        ({"": {"writes": [0]}}, "but got ''"),
    ],
)
def test_a_malformed_declaration_is_an_input_error_with_a_remedy(raw: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        parse_declarations(raw)
    assert "\n" not in str(error.value)


def make_unknown(kernel: str = "f") -> CallEffects:
    return create_unknown_effects(kernel=kernel, operands=3, outputs=1, reason="not to be seen")


def test_declared_effects_replace_unknown_ones() -> None:
    declared = DeclaredEffects(name="f", writes=frozenset({0, 1}), reads=frozenset({1, 2}))
    effects, contradictions = apply_declarations(make_unknown(), target="f", declarations=(declared,))
    assert contradictions == ()
    assert (effects.operands, effects.outputs, effects.reasons) == ((WRITE, BOTH, READ), (WRITE,), ())
    one, two, three = effects.operand_uses
    assert one.reads_before_write is ReadsBeforeWrite.NO
    assert (two.reads_before_write, two.coverage, two.neighbours) == (
        ReadsBeforeWrite.UNKNOWN,
        WriteCoverage.UNKNOWN,
        Neighbours.UNKNOWN,
    )
    assert (three.coverage, three.neighbours) == (WriteCoverage.NONE, Neighbours.DISJOINT)
    assert two.reason == "`f` was not analysed: its effects are those that you declared"


def test_without_reads_every_operand_may_be_read() -> None:
    declared = DeclaredEffects(name="f", writes=frozenset({1}))
    effects, _ = apply_declarations(make_unknown(), target="f", declarations=(declared,))
    assert effects.operands == (READ, BOTH, READ)


def test_a_declaration_of_the_kernel_outranks_one_of_its_target() -> None:
    declarations = (
        DeclaredEffects(name="mosaic_gpu_v2", writes=frozenset({0})),
        DeclaredEffects(name="my_kernel", writes=frozenset({2})),
    )
    effects, _ = apply_declarations(make_unknown("my_kernel"), target="mosaic_gpu_v2", declarations=declarations)
    assert effects.operands == (READ, READ, BOTH)
    effects, _ = apply_declarations(make_unknown("another"), target="mosaic_gpu_v2", declarations=declarations)
    assert effects.operands == (BOTH, READ, READ)
    untouched = make_unknown("another")
    assert apply_declarations(untouched, target="other", declarations=declarations) == (untouched, ())


def test_the_ir_wins_and_the_contradiction_is_reported() -> None:
    found = CallEffects(kernel="k", operands=(BOTH, READ, NONE, UNKNOWN), outputs=(WRITE,), reasons=("why",))
    declared = DeclaredEffects(name="k", writes=frozenset({1, 7}), reads=frozenset({0, 1}))
    effects, contradictions = apply_declarations(found, target="t", declarations=(declared,))
    assert effects.operands == (BOTH, READ, NONE, UNKNOWN)  # the declaration is for a call with more operands
    assert effects.operand_uses == found.operand_uses
    assert contradictions == (
        Contradiction(target="k", kernel="k", operand=0, declared=READ, found=BOTH),
        Contradiction(target="k", kernel="k", operand=1, declared=BOTH, found=READ),
        Contradiction(target="k", kernel="k", operand=7, declared=WRITE, found=NONE),
    )


def test_a_declaration_for_more_operands_settles_only_the_written_ones() -> None:
    found = create_unknown_effects(kernel="k", operands=3, outputs=1, reason="why")
    for writes, known in (({1}, (READ, BOTH, READ)), ({1, 3}, (UNKNOWN, BOTH, UNKNOWN)), ({9}, (UNKNOWN,) * 3)):
        declared = DeclaredEffects(name="k", writes=frozenset(writes))
        assert apply_declarations(found, target="k", declarations=(declared,))[0].operands == known


def test_a_correct_declaration_causes_no_contradiction() -> None:
    found = CallEffects(kernel="k", operands=(BOTH, READ), outputs=(WRITE,))
    for reads in (None, frozenset({0, 1})):
        declared = DeclaredEffects(name="k", writes=frozenset({0}), reads=reads)
        assert apply_declarations(found, target="t", declarations=(declared,)) == (found, ())


def test_an_undeclared_read_is_a_contradiction_only_if_reads_are_declared() -> None:
    found = CallEffects(kernel="k", operands=(READ,), outputs=())
    some = DeclaredEffects(name="k", writes=frozenset(), reads=frozenset())
    assert apply_declarations(found, target="t", declarations=(some,))[1] == (
        Contradiction(target="k", kernel="k", operand=0, declared=NONE, found=READ),
    )


TRUSTED = parse_declarations(
    {"lib_*": {"writes": "aliased"}, "lib_known": {"writes": [1]}, "own": {"writes": "aliased"}}
)


@pytest.mark.parametrize(
    ("target", "aliased", "expected"),
    [
        ("lib_f", frozenset({1}), (READ, BOTH)),
        ("lib_f", frozenset[int](), (READ, READ)),
        ("own", frozenset({0}), (BOTH, READ)),
        ("lib_known", frozenset({0}), (READ, BOTH)),  # an exact entry outranks a pattern
        ("other", frozenset({0}), (UNKNOWN, UNKNOWN)),
        ("lib_f", None, (UNKNOWN, UNKNOWN)),  # side effects, or code that could not be followed
        ("own", None, (UNKNOWN, UNKNOWN)),
    ],
)
def test_a_call_s_aliases_are_trusted_only_if_declared(
    target: str, aliased: frozenset[int] | None, expected: tuple[Access, ...]
) -> None:
    found = create_unknown_effects(kernel=target, operands=2, outputs=1, reason="nothing is known")
    effects, contradictions = apply_declarations(found, target=target, declarations=TRUSTED, aliased=aliased)
    assert effects.operands == expected
    assert contradictions == ()
    assert bool(effects.reasons) == (UNKNOWN in expected)


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        (
            "the effects of custom-call target `lib_f` are not known; declare its writes under [tool.ligerdiag.effects]",
            0,
        ),
        ("a pointer is made from an integer", 1),
    ],
)
def test_distrust_of_a_call_s_aliases_is_the_first_reason(reason: str, left: int) -> None:
    found = create_unknown_effects(kernel="lib_f", operands=2, outputs=1, reason=reason)
    effects, _ = apply_declarations(
        found, target="lib_f", declarations=TRUSTED, aliased=None, untrusted="the call has side effects"
    )
    first, *others = effects.reasons
    assert first == '`writes = "aliased"` is declared, but not trusted: the call has side effects'
    assert len(others) == left


def test_a_pattern_matches_targets_and_not_kernels() -> None:
    found = create_unknown_effects(kernel="lib_kernel", operands=1, outputs=1, reason="not followed")
    effects, _ = apply_declarations(found, target="triton_kernel_call", declarations=TRUSTED, aliased=None)
    assert effects == found


def test_a_kernel_without_ir_is_declared_by_its_name() -> None:
    call = triton_call_pb2.TritonAnyKernelCall()
    call.kernel_call.kernel.kernel_name = "permute_kernel"
    payload = zlib.compress(call.SerializeToString())
    found = compute_call_effects(target="triton_kernel_call", backend_config=payload, operands=2, outputs=1)
    assert (found.kernel, found.operands) == ("permute_kernel", (UNKNOWN, UNKNOWN))
    assert found.reasons[0].startswith("the payload of `permute_kernel` has no Triton IR; declare the kernel's writes")
    declarations = parse_declarations({"permute_kernel": {"writes": [1]}})
    effects, _ = apply_declarations(found, target="triton_kernel_call", declarations=declarations)
    assert effects.operands == (READ, BOTH)
