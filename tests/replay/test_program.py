"""Program order on numbers: which reads see a hidden write."""

import numpy as np

from ligerdiag.hlo.module import HloModule
from ligerdiag.replay.runs.program import run_program
from tests.replay.by_hand import LOOP, Doubling, X
from tests.replay.xla_cpu import parse_text


def parse(*lines: str, computations: str = "") -> HloModule:
    """The last line is the root. An instruction named `…ldN` carries the tag N."""
    text = [f'{line}, metadata={{op_name="f#{line.split(" ")[0].split("_")[-1]}"}}' for line in lines[:-1]]
    body = "\n".join([*text, f"ROOT {lines[-1]}"])
    return parse_text(f"HloModule m\n{computations}\nENTRY main {{\n{body}\n}}\n")


KERNEL = 'custom-call(h_ld1), custom_call_target="triton_kernel_call"'


def run(module: HloModule, *, isolated: bool = False) -> list[list[float]]:
    results = run_program(module, [X], Doubling(), isolated=isolated)
    return [result.tolist() for result in results]


def test_program_order_follows_the_tags_and_not_the_text() -> None:
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "late_ld4 = f32[4] negate(h_ld1)",
             f"k_ld3 = f32[4] {KERNEL}", "early_ld2 = f32[4] negate(h_ld1)",
             "t = (f32[4], f32[4], f32[4]) tuple(early_ld2, late_ld4, k_ld3)"]  # fmt: skip
    assert run(parse(*lines)) == [[-1, -2, -3, -4], [-2, -4, -6, -8], [1, 2, 3, 4]]


def test_a_value_passed_twice_to_a_kernel_is_overwritten_through_either_operand() -> None:
    twice = KERNEL.replace("(h_ld1)", "(h_ld1, h_ld1)")
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", f"k_ld2 = f32[4] {twice}",
             "late_ld3 = f32[4] negate(h_ld1)", "t = (f32[4], f32[4]) tuple(late_ld3, k_ld2)"]  # fmt: skip
    assert run(parse(*lines)) == [[-2, -4, -6, -8], [1, 2, 3, 4]]


def test_in_isolated_memory_no_read_sees_a_hidden_write() -> None:
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", f"k_ld2 = f32[4] {KERNEL}",
             "late_ld3 = f32[4] negate(h_ld1)", "t = (f32[4], f32[4]) tuple(late_ld3, k_ld2)"]  # fmt: skip
    assert run(parse(*lines), isolated=True) == [[-1, -2, -3, -4], [1, 2, 3, 4]]


def test_one_call_of_a_computation_loses_its_write_and_the_other_one_keeps_it() -> None:
    callee = """callee {
  p = f32[4] parameter(0)
  ROOT k = f32[4] custom-call(p), custom_call_target="triton_kernel_call"
}"""
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "g_ld2 = f32[4] copy(x)",
             "c_ld3 = f32[4] call(h_ld1), to_apply=callee", "d_ld4 = f32[4] call(g_ld2), to_apply=callee",
             "both_ld5 = f32[4] multiply(h_ld1, g_ld2)", "t = (f32[4], f32[4]) tuple(both_ld5, h_ld1)"]  # fmt: skip
    module = parse(*lines, computations=callee)
    ids = {one.name: one.id for one in module.instructions}
    places = [((ids[caller], ids["k"]), 0) for caller in ("c_ld3", "d_ld4")]
    for lost, factor, h in (({}, 4, 2), ({places[0]}, 2, 1), ({places[1]}, 2, 2), (set(places), 1, 1)):
        both, first = run_program(module, [X], Doubling(), lost=frozenset(lost))
        assert both.tolist() == [factor * x * x for x in (1, 2, 3, 4)]
        assert first.tolist() == [h * x for x in (1, 2, 3, 4)]


def test_a_write_in_a_loop_is_lost_in_each_iteration() -> None:
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "zero = s32[] constant(0)",
             "start = (s32[], f32[4]) tuple(zero, h_ld1)",
             "w_ld2 = (s32[], f32[4]) while(start), condition=condition, body=body",
             "out = f32[4] get-tuple-element(w_ld2), index=1", "t = (f32[4], f32[4]) tuple(out, h_ld1)"]  # fmt: skip
    module = parse(*lines, computations=LOOP)
    ids = {one.name: one.id for one in module.instructions}
    found = run_program(module, [X], Doubling(), lost=frozenset({((ids["w_ld2"], ids["k"]), 0)}))
    assert [one.tolist() for one in found] == [[1, 2, 3, 4], [1, 2, 3, 4]]


def test_a_computed_value_is_not_overwritten_with_its_operand() -> None:
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "same_ld2 = f32[2,2] reshape(h_ld1)",
             "kept_ld3 = f32[4] opt-barrier(h_ld1)", f"k_ld4 = f32[4] {KERNEL}",
             "t = (f32[2,2], f32[4], f32[4]) tuple(same_ld2, kept_ld3, h_ld1)"]  # fmt: skip
    assert run(parse(*lines)) == [[[1, 2], [3, 4]], [1, 2, 3, 4], [2, 4, 6, 8]]


def test_arguments_and_tuple_elements_are_other_names_for_the_same_value() -> None:
    callee = """callee {
  p = (f32[4], f32[4]) parameter(0)
  first = f32[4] get-tuple-element(p), index=0
  ROOT k = f32[4] custom-call(first), custom_call_target="triton_kernel_call"
}"""
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "pair = (f32[4], f32[4]) tuple(h_ld1, x)",
             "c_ld2 = f32[4] call(pair), to_apply=callee", "t = (f32[4], f32[4]) tuple(c_ld2, h_ld1)"]  # fmt: skip
    assert run(parse(*lines, computations=callee)) == [[1, 2, 3, 4], [2, 4, 6, 8]]


def test_an_element_that_a_loop_returns_unchanged_names_one_value() -> None:
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "zero = s32[] constant(0)",
             "start = (s32[], f32[4]) tuple(zero, h_ld1)",
             "w_ld2 = (s32[], f32[4]) while(start), condition=condition, body=body",
             "out = f32[4] get-tuple-element(w_ld2), index=1", "t = (f32[4], f32[4]) tuple(out, h_ld1)"]  # fmt: skip
    assert run(parse(*lines, computations=LOOP)) == [[8, 16, 24, 32], [8, 16, 24, 32]]


def test_an_element_that_a_loop_changes_has_separate_storage() -> None:
    changed = LOOP.replace("ROOT next", "  other = f32[4] copy(h)\nROOT next").replace("tuple(j, h)", "tuple(j, other)")
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "zero = s32[] constant(0)",
             "start = (s32[], f32[4]) tuple(zero, h_ld1)",
             "w_ld2 = (s32[], f32[4]) while(start), condition=condition, body=body",
             "out = f32[4] get-tuple-element(w_ld2), index=1", "t = (f32[4], f32[4]) tuple(out, h_ld1)"]  # fmt: skip
    assert run(parse(*lines, computations=changed)) == [[8, 16, 24, 32], [1, 2, 3, 4]]


def test_a_declared_alias_changes_the_result_and_leaves_the_operand() -> None:
    aliased = f"{KERNEL}, output_to_operand_aliasing={{{{}}: (0, {{}})}}"
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", f"k_ld2 = f32[4] {aliased}",
             "t = (f32[4], f32[4]) tuple(k_ld2, h_ld1)"]  # fmt: skip
    assert run(parse(*lines)) == [[2, 4, 6, 8], [1, 2, 3, 4]]
    assert X.tolist() == np.arange(1, 5).tolist()
