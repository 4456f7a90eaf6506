"""A footprint lists the parameters and kernels that a value is computed from, whatever the names say."""

from ligerdiag.provenance.footprints import compute_footprints, number_kernels
from tests.replay.by_hand import parse_text

MODULE = """HloModule m
body {
  state = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  h = f32[4] get-tuple-element(state), index=1
  other = f32[4] get-tuple-element(state), index=2
  sum = f32[4] add(h, other)
  ROOT next = (s32[], f32[4], f32[4]) tuple(i, sum, other)
}
condition {
  cs = (s32[], f32[4], f32[4]) parameter(0)
  ci = s32[] get-tuple-element(cs), index=0
  most = s32[] constant(8)
  ROOT less = pred[] compare(ci, most), direction=LT
}
left {
  l = f32[4] parameter(0)
  ROOT m = f32[4] negate(l)
}
right {
  r = f32[4] parameter(0)
  ROOT z = f32[4] constant({1, 2, 3, 4})
}
ENTRY main {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] parameter(2)
  choice = pred[] parameter(3)
  zero = f32[4] constant({0, 0, 0, 0})
  begin = (s32[], f32[4], f32[4]) tuple(n, zero, x)
  w = (s32[], f32[4], f32[4]) while(begin), condition=condition, body=body
  summed = f32[4] get-tuple-element(w), index=1
  kept = f32[4] get-tuple-element(w), index=2
  chosen = f32[4] conditional(choice, y, y), true_computation=left, false_computation=right
  k = f32[4] custom-call(y), custom_call_target="triton_kernel_call"
  ROOT all = (f32[4], f32[4], f32[4], f32[4]) tuple(summed, kept, chosen, k)
}
"""
N, X, Y, CHOICE, KERNEL = (1 << number for number in range(5))


def test_a_value_is_computed_from_parameters_and_kernels() -> None:
    module = parse_text(MODULE)
    footprints = compute_footprints(module, number_kernels(module))
    found = {one.name: footprints[one.id] for one in module.entry.instructions}
    assert found["zero"] == 0
    assert found["summed"] == N | X  # the condition decides how often it is added
    assert found["kept"] == N | X
    assert found["chosen"] == Y | CHOICE
    assert found["k"] == Y | KERNEL
    assert found["all"] == N | X | Y | CHOICE | KERNEL


def test_a_library_call_is_not_a_kernel_of_the_program() -> None:
    module = parse_text(MODULE)
    footprints = compute_footprints(module, {})
    assert next(footprints[one.id] for one in module.entry.instructions if one.name == "k") == Y


def test_elements_of_a_tuple_have_separate_footprints() -> None:
    text = MODULE.replace("compare(ci, most)", "compare(most, most)")
    module = parse_text(text)
    footprints = compute_footprints(module, number_kernels(module))
    found = {one.name: footprints[one.id] for one in module.entry.instructions}
    assert found["summed"] == found["kept"] == X
