"""Each pair of modules is written by hand, and so is the identity of its values.

An instruction `exp_ld2` in a text has the op_name of the operation with tag 2, as in a tagged program; an instruction that a
pass made has another name, and its text gives the op_name.
"""

import re

import pytest

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import parse_hlo
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.provenance.identification import Identification
from ligerdiag.provenance.identity import EvidenceKind, Maker, ValueIdentity
from tests.hlo.placing import read_text

_NAMED = re.compile(r"^\s*(?:ROOT )?\w*?_(ld\d+)\b.*\)")


def read(text: str) -> HloModule:
    lines = [f"{line}{_render_metadata(line)}" for line in text.splitlines()]
    return parse_hlo(read_text("\n".join(["HloModule f", *lines])).SerializeToString())[0]


def _render_metadata(line: str) -> str:
    found = _NAMED.match(line)
    return f', metadata={{op_name="f#{found[1]}"}}' if found and "metadata" not in line else ""


def find(module: HloModule, name: str) -> HloInstruction:
    (found,) = [one for one in module.instructions if one.name == name]
    return found


def identify(program: str, schedule: str, name: str, index: ShapeIndex = ()) -> ValueIdentity:
    optimized = read(schedule)
    return Identification(read(program), optimized).identify(find(optimized, name), index)


def names(identity: ValueIdentity) -> set[str]:
    return {str(value) for value in identity.values}


PRODUCTS = """
ENTRY e {
  h = f32[8,16] parameter(0)
  w1 = f32[16,4] parameter(1)
  w2 = f32[16,4] parameter(2)
  dot_ld1 = f32[8,4] dot(h, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dot_ld2 = f32[8,4] dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[8,4], f32[8,4]) tuple(dot_ld1, dot_ld2)
}
"""
JOINED = """
ENTRY e {
  h = f32[8,16] parameter(0)
  w1 = f32[16,4] parameter(1)
  w2 = f32[16,4] parameter(2)
  w = f32[16,8] concatenate(w1, w2), dimensions={1}
  dot.3 = f32[8,8] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="f#ld1"}
  slice.1 = f32[8,4] slice(dot.3), slice={[0:8], [0:4]}, ORIGIN1metadata={op_name="f#ld1"}
  slice.2 = f32[8,4] slice(dot.3), slice={[0:8], [4:8]}, ORIGIN2metadata={op_name="f#ld1"}
  ROOT r = (f32[8,4], f32[8,4]) tuple(slice.1, slice.2)
}
"""
WITH_LINEAGE = JOINED.replace("ORIGIN1", 'origin={{"ld1"}}, ').replace("ORIGIN2", 'origin={{"ld2"}}, ')
WITHOUT = JOINED.replace("ORIGIN1", "").replace("ORIGIN2", "")


def test_lineage_tells_the_slices_of_a_joined_product_apart() -> None:
    first, second = (identify(PRODUCTS, WITH_LINEAGE, name) for name in ("slice.1", "slice.2"))
    assert (names(first), names(second)) == ({"ld1"}, {"ld2"})
    assert second.made_for == (1,)
    assert second.maker is Maker.XLA
    contradicted = {one.kind for pair in second.contradictions for one in pair}
    assert contradicted == {EvidenceKind.STRUCTURE, EvidenceKind.LINEAGE, EvidenceKind.TAG}
    assert not second.is_contradicted  # a tag on an instruction that a pass made is not firm
    assert first.contradictions == ()


@pytest.mark.parametrize(("name", "expected"), [("slice.1", {"ld1"}), ("slice.2", {"ld2"}), ("dot.3", set[str]())])
def test_without_lineage_the_structure_tells_the_slices_of_a_joined_product_apart(
    name: str, expected: set[str]
) -> None:
    assert names(identify(PRODUCTS, WITHOUT, name)) == expected


def test_the_leaf_of_a_tuple_is_the_array_that_it_holds() -> None:
    assert names(identify(PRODUCTS, WITH_LINEAGE, "r", (1,))) == {"ld2"}
    assert not identify(PRODUCTS, WITH_LINEAGE, "r").is_known


TWINS = """
ENTRY e {
  x = f32[8] parameter(0)
  exp_ld1 = f32[8] exponential(x)
  exp_ld2 = f32[8] exponential(x)
  sub_ld3 = f32[8] subtract(exp_ld1, exp_ld2)
  neg_ld4 = f32[8] negate(exp_ld2)
  ROOT r = (f32[8], f32[8], f32[8]) tuple(exp_ld2, sub_ld3, neg_ld4)
}
"""


def test_operations_that_xla_merges_are_both_its_value() -> None:
    schedule = """
ENTRY e {
  x = f32[8] parameter(0)
  exp_ld1 = f32[8] exponential(x)
  sub_ld3 = f32[8] subtract(exp_ld1, exp_ld1)
  neg_ld4 = f32[8] negate(exp_ld1)
  ROOT r = (f32[8], f32[8], f32[8]) tuple(exp_ld1, sub_ld3, neg_ld4)
}
"""
    merged = identify(TWINS, schedule, "exp_ld1")
    assert names(merged) == {"ld1", "ld2"}
    assert merged.maker is Maker.AUTHOR
    assert {one.kind for one in merged.evidence} == {EvidenceKind.STRUCTURE, EvidenceKind.TAG}
    assert names(identify(TWINS, schedule, "sub_ld3")) == {"ld3"}
    assert names(identify(TWINS, schedule, "x")) == {"argument 0"}
    assert identify(TWINS, schedule, "x").maker is Maker.ARGUMENT


DIFFERENCE = """
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  ROOT sub_ld1 = f32[8] subtract(x, y)
}
"""


def test_metadata_that_a_pass_copied_says_nothing_about_the_value() -> None:
    schedule = """
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  negate.1 = f32[8] negate(y), metadata={op_name="f#ld1"}
  ROOT add.1 = f32[8] add(x, negate.1), metadata={op_name="f#ld1"}
}
"""
    for name in ("negate.1", "add.1"):
        found = identify(DIFFERENCE, schedule, name)
        assert (found.values, found.maker, found.made_for) == (frozenset(), Maker.XLA, (1,))
        (evidence,) = found.evidence
        assert (evidence.kind, evidence.is_firm, evidence.said) == (EvidenceKind.TAG, False, "#ld1")


def test_a_tag_on_the_wrong_operation_is_contradicted_by_the_structure() -> None:
    schedule = """
ENTRY e {
  y = f32[8] parameter(1)
  x = f32[8] parameter(0)
  sub_ld1 = f32[8] subtract(y, x)
  ROOT neg_ld4 = f32[8] negate(sub_ld1)
}
"""
    program = DIFFERENCE.replace("ROOT sub_ld1", "sub_ld1").replace(
        "}", "  sub_ld2 = f32[8] subtract(y, x)\n  ROOT neg_ld4 = f32[8] negate(sub_ld2)\n}"
    )
    found = identify(program, schedule, "sub_ld1")
    assert names(found) == {"ld2"}
    assert found.is_contradicted


def test_a_fusion_and_a_copy_are_the_value_that_they_hold() -> None:
    schedule = """
fused {
  p0 = f32[8] parameter(0)
  p1 = f32[8] parameter(1)
  ROOT sub_ld1.1 = f32[8] subtract(p0, p1), metadata={op_name="f#ld1"}
}
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  loop_fusion = f32[8] fusion(x, y), kind=kLoop, calls=fused, metadata={op_name="f#ld1"}
  ROOT copy.1 = f32[8] copy(loop_fusion)
}
"""
    for name in ("sub_ld1.1", "loop_fusion", "copy.1"):
        assert names(identify(DIFFERENCE, schedule, name)) == {"ld1"}


SHAPED = """
ENTRY e {
  a = f32[4,8] parameter(0)
  b = f32[8,6] parameter(1)
  t_ld1 = f32[8,4] transpose(a), dimensions={1,0}
  dot_ld2 = f32[4,6] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  half_ld3 = f32[2,8] slice(a), slice={[2:4], [0:8]}
  c_ld4 = f32[6,8] concatenate(a, half_ld3), dimensions={0}
  one_ld5 = f32[1,8] slice(a), slice={[0:1], [0:8]}
  constant = f32[] constant(0)
  sum_ld6 = f32[8] reduce(one_ld5, constant), dimensions={0}, to_apply=plus
  row_ld7 = f32[8] reshape(one_ld5)
  x_ld8 = f32[4] slice(row_ld7), slice={[0:4]}
  ROOT r = (f32[8,4], f32[4,6], f32[6,8], f32[8], f32[4]) tuple(t_ld1, dot_ld2, c_ld4, sum_ld6, x_ld8)
}
"""
PLUS = """
plus {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT add = f32[] add(p, q)
}
"""


def test_views_pieces_and_exchanged_products_are_recognised_by_their_structure() -> None:
    schedule = """
ENTRY e {
  a = f32[4,8]{1,0} parameter(0)
  b = f32[8,6]{1,0} parameter(1)
  bitcast.1 = f32[8,4]{0,1} bitcast(a)
  swapped = f32[6,4]{1,0} dot(b, bitcast.1), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  product = f32[4,6]{0,1} bitcast(swapped)
  slice.1 = f32[2,8]{1,0} slice(a), slice={[2:4], [0:8]}
  joined = f32[6,8]{1,0} concatenate(a, slice.1), dimensions={0}
  piece = f32[2,8]{1,0} slice(joined), slice={[4:6], [0:8]}
  other = f32[2,8]{1,0} slice(joined), slice={[3:5], [0:8]}
  ROOT r = (f32[8,4]{0,1}, f32[4,6]{0,1}, f32[2,8]{1,0}, f32[2,8]{1,0}) tuple(bitcast.1, product, piece, other)
}
"""
    identification = Identification(read(PLUS + SHAPED), optimized := read(schedule))
    found = {name: names(identification.identify(find(optimized, name))) for name in (
        "bitcast.1", "product", "swapped", "joined", "piece", "other",
    )}  # fmt: skip
    assert found == {
        "bitcast.1": {"ld1"}, "product": {"ld2"}, "swapped": set(), "joined": {"ld4"}, "piece": {"ld3"}, "other": set(),
    }  # fmt: skip


def test_a_sum_over_one_row_is_the_row() -> None:
    tagged_like_the_sum = PLUS.replace("ROOT add", "ROOT add_ld6")
    identification = Identification(program := read(tagged_like_the_sum + SHAPED), program)
    assert names(identification.identify(find(program, "sum_ld6"))) == {"ld6", "ld7"}


def test_the_maximum_of_one_row_and_zero_is_not_the_row() -> None:
    identification = Identification(program := read(PLUS.replace("add(p", "maximum(p") + SHAPED), program)
    assert names(identification.identify(find(program, "sum_ld6"))) == {"ld6"}


def make_loop(step: str, *, state: str = "s32[], f32[8], f32[8]", start: str = "zero, x, y", extra: str = "") -> str:
    """Returns a loop over (counter, value, weight) that runs four times."""
    return f"""
body {{
  p = ({state}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[8] get-tuple-element(p), index=1
  w = f32[8] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next_ld2 = s32[] add(i, one)
  mul_ld3 = f32[8] multiply(v, w)
  {step}
  ROOT r = ({state}) tuple(next_ld2, new_ld4, w{extra})
}}
condition {{
  p = ({state}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  four = s32[] constant(4)
  ROOT less_ld5 = pred[] compare(i, four), direction=LT
}}
ENTRY e {{
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  zero = s32[] constant(0)
  t = ({state}) tuple({start})
  while_ld6 = ({state}) while(t), condition=condition, body=body
  v_end = f32[8] get-tuple-element(while_ld6), index=1
  ROOT neg_ld7 = f32[8] negate(v_end)
}}
"""


LOOP = make_loop("new_ld4 = f32[8] tanh(mul_ld3)")


def strip_tags_of_loop(text: str) -> str:
    """Returns the text with other names, so that no tag is left."""
    return re.sub(r"_ld(\d+)", r"_\1", text)


def test_an_iteration_of_a_loop_has_the_values_of_the_program_s_iteration() -> None:
    hoisted = make_loop(
        "new_ld4 = f32[8] tanh(mul_ld3)",
        state="s32[], f32[8], f32[8], f32[8]",
        start="zero, x, y, x",
        extra=", kept",
    ).replace("  one = s32", "  kept = f32[8] get-tuple-element(p), index=3\n  one = s32")
    identification = Identification(read(LOOP), optimized := read(strip_tags_of_loop(hoisted)))
    found = {name: names(identification.identify(find(optimized, name))) for name in (
        "mul_3", "new_4", "w", "kept", "next_2", "less_5", "v_end", "neg_7",
    )}  # fmt: skip
    assert found == {
        "mul_3": {"ld3"},
        "new_4": {"ld4"},
        "w": {"argument 1", "ld6{2}"},
        "kept": {"argument 0"},
        "next_2": {"ld2"},
        "less_5": {"ld5"},
        "v_end": {"ld6{1}"},
        "neg_7": {"ld7"},
    }


@pytest.mark.parametrize(
    ("schedule", "left"),
    [
        (make_loop("new_ld4 = f32[8] exponential(mul_ld3)"), set[str]()),
        (make_loop("new_ld4 = f32[8] tanh(mul_ld3)", start="zero, y, y"), set[str]()),
        (LOOP.replace("constant(4)", "constant(5)"), set[str]()),
        (LOOP.replace("constant(0)", "constant(1)"), set[str]()),
        (LOOP.replace("negate(v_end)", "exponential(v_end)"), {"ld3"}),
    ],
    ids=["another step", "another start", "another end", "another first number", "another use"],
)
def test_a_loop_that_differs_has_other_values(schedule: str, left: set[str]) -> None:
    found = identify(LOOP, strip_tags_of_loop(schedule), "mul_3")
    assert names(found) == left


def test_a_loop_may_use_the_result_of_a_larger_one() -> None:
    text = make_loop("new_ld4 = f32[8] tanh(mul_ld3)", state="s32[], f32[8], f32[8], f32[8]", start="zero, x, y, y")
    text = text.replace("new_ld4, w)", "new_ld4, u, w)").replace(
        "  one = s32", "  u = f32[8] get-tuple-element(p), index=3\n  one = s32"
    )
    second = """
second_body {
  q = (s32[], f32[8], f32[8]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  z = f32[8] get-tuple-element(q), index=1
  one = s32[] constant(1)
  next_ld8 = s32[] add(j, one)
  k = f32[8] get-tuple-element(q), index=2
  product_ld9 = f32[8] multiply(z, k)
  ROOT r = (s32[], f32[8], f32[8]) tuple(next_ld8, product_ld9, k)
}
second_condition {
  q = (s32[], f32[8], f32[8]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  four = s32[] constant(4)
  ROOT less_ld10 = pred[] compare(j, four), direction=LT
}
ENTRY"""
    text = text.replace("ENTRY", second).replace(
        "  ROOT neg_ld7 = f32[8] negate(v_end)",
        """  s = (s32[], f32[8], f32[8]) tuple(zero, x, v_end)
  while_ld11 = (s32[], f32[8], f32[8]) while(s), condition=second_condition, body=second_body
  z_end = f32[8] get-tuple-element(while_ld11), index=1
  ROOT neg_ld7 = f32[8] negate(z_end)""",
    )
    identification = Identification(read(text), optimized := read(strip_tags_of_loop(text)))
    found = {name: names(identification.identify(find(optimized, name))) for name in ("mul_3", "product_9", "z_end")}
    assert found == {"mul_3": {"ld3"}, "product_9": {"ld9"}, "z_end": {"ld11{1}"}}


def test_a_tuple_has_no_tag_of_its_own() -> None:
    schedule = strip_tags_of_loop(LOOP).replace("tuple(zero, x, y)", 'tuple(zero, x, y), metadata={op_name="f#ld6"}')
    found = identify(LOOP, schedule, "t", (1,))
    assert names(found) == {"argument 0"}
    assert [one.kind for one in found.evidence] == [EvidenceKind.STRUCTURE]


def test_the_tag_of_a_loop_says_nothing_about_the_elements_of_its_state() -> None:
    """XLA has exchanged the value and the weight, and rewritten the step, so that the structure says nothing."""
    exchanged = make_loop("new_ld4 = f32[8] tanh(mul_ld3)", start="zero, y, x")
    exchanged = exchanged.replace(
        "  v = f32[8] get-tuple-element(p), index=1", "  w = f32[8] get-tuple-element(p), index=1"
    )
    exchanged = exchanged.replace(
        "  w = f32[8] get-tuple-element(p), index=2", "  v = f32[8] get-tuple-element(p), index=2"
    )
    exchanged = exchanged.replace("(next_ld2, new_ld4, w)", "(next_ld2, w, new_ld4)").replace(
        "tanh(mul_ld3)", "exponential(mul_ld3)"
    )
    found = identify(LOOP, exchanged, "while_ld6", (2,))
    (evidence,) = found.evidence
    assert {str(value) for value in evidence.values} == {"ld6{2}", "argument 1"}
    assert not evidence.is_firm
    assert found.values == frozenset()


def test_an_iteration_that_xla_took_out_of_a_loop_is_not_the_loop_s_value() -> None:
    """The first iteration stands before the loop, which runs three times then, on a rewritten step."""
    peeled = make_loop("new_ld4 = f32[8] exponential(mul_ld3)", start="one_more, first_ld4, y")
    peeled = peeled.replace(
        "  zero = s32[] constant(0)",
        """  one_more = s32[] constant(1)
  shifted = f32[8] add(x, x)
  mul_ld3.1 = f32[8] multiply(shifted, y), origin={{"ld3"}}, metadata={op_name="f#ld3"}
  first_ld4 = f32[8] tanh(mul_ld3.1), origin={{"ld4"}}, metadata={op_name="f#ld4"}""",
    )
    peeled = peeled.replace(
        "mul_ld3 = f32[8] multiply(v, w)", 'mul_ld3 = f32[8] multiply(v, w), metadata={op_name="f#ld3"}'
    )
    for name in ("mul_ld3.1", "first_ld4", "mul_ld3"):
        found = identify(LOOP, peeled, name)
        assert found.values == frozenset()
        assert found.evidence
        assert not any(one.is_firm for one in found.evidence)


def test_loops_inside_of_each_other_do_not_mix_up_their_states() -> None:
    """Both loops carry (counter, value) from the same start, and the inner one runs on the outer one's value."""
    text = """
inner_body {
  p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next_ld1 = s32[] add(i, one)
  exp_ld2 = f32[8] exponential(v)
  ROOT r = (s32[], f32[8]) tuple(next_ld1, exp_ld2)
}
inner_condition {
  p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  four = s32[] constant(4)
  ROOT less_ld3 = pred[] compare(i, four), direction=LT
}
outer_body {
  p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[8] get-tuple-element(p), index=1
  zero = s32[] constant(0)
  t = (s32[], f32[8]) tuple(zero, v)
  while_ld4 = (s32[], f32[8]) while(t), condition=inner_condition, body=inner_body
  u = f32[8] get-tuple-element(while_ld4), index=1
  one = s32[] constant(1)
  next_ld5 = s32[] add(i, one)
  exp_ld6 = f32[8] exponential(v)
  sum_ld7 = f32[8] add(u, exp_ld6)
  ROOT r = (s32[], f32[8]) tuple(next_ld5, sum_ld7)
}
outer_condition {
  p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  four = s32[] constant(4)
  ROOT less_ld8 = pred[] compare(i, four), direction=LT
}
ENTRY e {
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8]) tuple(zero, x)
  while_ld9 = (s32[], f32[8]) while(t), condition=outer_condition, body=outer_body
  ROOT end = f32[8] get-tuple-element(while_ld9), index=1
}
"""
    identification = Identification(read(text), optimized := read(strip_tags_of_loop(text)))
    found = {name: names(identification.identify(find(optimized, name))) for name in (
        "exp_2", "exp_6", "u", "sum_7", "end",
    )}  # fmt: skip
    assert found == {
        "exp_2": {"ld2"}, "exp_6": {"ld6"}, "u": {"ld4{1}"}, "sum_7": {"ld7"}, "end": {"ld9{1}"},
    }  # fmt: skip


CALLED = """
f {
  p = f32[8] parameter(0)
  ROOT exp_ld5 = f32[8] exponential(p)
}
ENTRY e {
  x = f32[8] parameter(0)
  call_ld1 = f32[8] call(x), to_apply=f
  call_ld2 = f32[8] call(call_ld1), to_apply=f
  ROOT neg_ld3 = f32[8] negate(call_ld2)
}
"""


def test_an_operation_of_a_function_has_a_value_for_each_call() -> None:
    schedule = """
ENTRY e {
  x = f32[8] parameter(0)
  exp_ld5.1 = f32[8] exponential(x), metadata={op_name="f#ld1/g#ld5"}
  exp_ld5.2 = f32[8] exponential(exp_ld5.1), ORIGINmetadata={op_name="f#ld2/g#ld5"}
  ROOT neg_ld3 = f32[8] negate(exp_ld5.2)
}
"""
    plain = schedule.replace("ORIGIN", "")
    assert names(identify(CALLED, plain, "exp_ld5.1")) == {"ld1", "ld1/ld5"}
    assert names(identify(CALLED, plain, "exp_ld5.2")) == {"ld2", "ld2/ld5"}
    named = identify(CALLED, schedule.replace("ORIGIN", 'origin={{"ld5"}}, '), "exp_ld5.2")
    assert names(named) == {"ld2", "ld2/ld5"}  # the name `ld5` fits both calls, so it is no evidence for one
    assert named.contradictions == ()


def test_conversions_that_xla_removes_are_no_contradiction() -> None:
    program = """
ENTRY e {
  x = f32[8] parameter(0)
  exp_ld1 = f32[8] exponential(x)
  narrow_ld2 = bf16[8] convert(exp_ld1)
  wide_ld3 = f32[8] convert(narrow_ld2)
  ROOT neg_ld4 = f32[8] negate(wide_ld3)
}
"""
    schedule = """
ENTRY e {
  x = f32[8] parameter(0)
  exp_ld1 = f32[8] exponential(x), origin={{"ld3"}}, metadata={op_name="f#ld1"}
  ROOT neg_ld4 = f32[8] negate(exp_ld1)
}
"""
    found = identify(program, schedule, "exp_ld1")
    assert names(found) == {"ld1"}
    assert found.contradictions == ()
    assert {one.kind for one in found.evidence} == set(EvidenceKind)


def test_values_that_are_no_function_of_operands_are_never_equal() -> None:
    program = """
ENTRY e {
  a_ld1 = f32[8] custom-call(), custom_call_target="AllocateBuffer"
  b_ld2 = f32[8] custom-call(), custom_call_target="AllocateBuffer"
  ROOT r_ld3 = f32[8] add(a_ld1, b_ld2)
}
"""
    schedule = strip_tags_of_loop(program)
    assert all(not identify(program, schedule, name).is_known for name in ("a_1", "b_2", "r_3"))


def test_a_sum_over_the_rows_of_one_device_is_not_the_whole_sum() -> None:
    program = (
        PLUS
        + """
ENTRY e {
  x = f32[16,8] parameter(0)
  zero = f32[] constant(0)
  sum_ld1 = f32[8] reduce(x, zero), dimensions={0}, to_apply=plus
  ROOT neg_ld2 = f32[8] negate(sum_ld1)
}
"""
    )
    schedule = (
        PLUS
        + """
ENTRY e {
  x = f32[4,8] parameter(0)
  zero = f32[] constant(0)
  sum_ld1.2 = f32[8] reduce(x, zero), dimensions={0}, to_apply=plus, origin={{"ld1"}}, metadata={op_name="f#ld1"}
  all-reduce.1 = f32[8] all-reduce(sum_ld1.2), to_apply=plus, metadata={op_name="f#ld1"}
  ROOT neg_ld2 = f32[8] negate(all-reduce.1)
}
"""
    )
    part = identify(program, schedule, "sum_ld1.2")
    assert part.values == frozenset()
    assert {(one.kind, one.is_firm) for one in part.evidence} == {
        (EvidenceKind.LINEAGE, False),
        (EvidenceKind.TAG, False),
    }
    assert names(identify(program, schedule, "neg_ld2")) == {"ld2"}
    assert identify(program, schedule, "all-reduce.1").values == frozenset()  # nothing says that it is the sum


QUOTIENT = """
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  div_ld1 = f32[8] divide(x, y)
  exp_ld2 = f32[8] exponential(div_ld1)
  exp_ld3 = f32[8] exponential(div_ld1)
  ROOT neg_ld4 = f32[8] negate(exp_ld3)
}
"""
INVERSE = """
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  one = f32[8] constant({1, 1, 1, 1, 1, 1, 1, 1})
  inverse = f32[8] divide(one, y), metadata={op_name="f#ld1"}
  times = f32[8] multiply(x, inverse), metadata={op_name="f#ld1"}
  exp_ld2 = f32[8] exponential(times), origin={{"ORIGIN"}}, metadata={op_name="f#ld2"}
  ROOT neg_ld4 = f32[8] negate(exp_ld2)
}
"""


def test_behind_a_rewrite_lineage_and_a_firm_tag_name_the_value_and_its_twins() -> None:
    found = identify(QUOTIENT, INVERSE.replace("ORIGIN", "ld2"), "exp_ld2")
    assert names(found) == {"ld2", "ld3"}
    assert {one.kind for one in found.evidence} == {EvidenceKind.LINEAGE, EvidenceKind.TAG}


def test_where_firm_evidence_differs_and_nothing_is_proved_the_value_is_unknown() -> None:
    found = identify(QUOTIENT, INVERSE.replace("ORIGIN", "ld4"), "exp_ld2")
    assert found.is_contradicted
    assert found.values == frozenset()
