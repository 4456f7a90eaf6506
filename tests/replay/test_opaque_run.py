"""Opaque functions tell fresh, stale and clobbered outputs apart, in small programs with every order of the schedule."""

import re
from typing import Any

import numpy as np
import pytest

from ligerdiag.artifacts.call_records import Placement
from ligerdiag.effects.access import Access, CallEffects, OperandUse, WriteCoverage
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.model.findings import OpaqueReplay, ReplayState
from ligerdiag.replay.opaque_runs.opaque_run import LEAST, list_opaque_calls, replay_opaquely
from ligerdiag.replay.runs.case_run import Programs, Signature
from tests.replay.by_hand import assign, parse
from tests.replay.test_float_bits import write_key
from tests.replay.test_program import parse as parse_program

PLACES: dict[str, int | tuple[int, int]] = {"x": (0, 0), "h": 0, "k": 64, "r": 128, "k2": 192, "t": 256, "c": 320}


def find_effects(call: HloInstruction) -> CallEffects:
    """Returns the effects of a call that updates each of its operands; `part` leaves all but the first 8 bytes."""
    use = OperandUse(coverage=WriteCoverage.PARTIAL, span=(0, 8) if "part" in call.proto.custom_call_target else None)
    count = len(call.operands)
    return CallEffects(
        kernel="k",
        operands=(Access.READ_WRITE,) * count,
        outputs=(Access.WRITE,) * sum(1 for _ in iterate_leaf_shapes(call.shape)),
        operand_uses=(use,) * count,
    )


def replay(program: HloModule, schedule: HloModule, places: Any = PLACES, argument: Any = None) -> OpaqueReplay:
    argument = np.array([1, 2, 3, 4], np.float32) if argument is None else argument
    names = tuple(f"o{n}" for n, _ in enumerate(iterate_leaf_shapes(program.entry.root.shape)))

    def place(shape: Any) -> Placement:
        return Placement(shape=tuple(shape.dimensions), shards=(tuple((0, d) for d in shape.dimensions),))

    signature = Signature(
        inputs=("x",),
        outputs=names,
        input_placements=(place(program.entry.parameters[0].shape),),
        output_placements=tuple(place(shape) for _, shape in iterate_leaf_shapes(program.entry.root.shape)),
        devices=1,
    )
    programs = Programs(program=program, optimized=schedule, buffers=assign(schedule, places), signature=signature)
    return replay_opaquely(programs, [argument], list_opaque_calls(program, schedule, find_effects))


def call(name: str, operand: str, target: str = "mine") -> str:
    return f'{name} = f32[4] custom-call({operand}), custom_call_target="{target}"'


def attribute(found: OpaqueReplay) -> list[str]:
    assert found.state is ReplayState.DONE, found.reason
    return [numbers.attribution.value for numbers in found.outputs.values()]


def run_reader(*, means_after: bool, runs_after: bool, target: str = "mine", read: str = "negate(h)") -> OpaqueReplay:
    kernel = call("k_ld2" if means_after else "k_ld3", "h_ld1", target)
    reader = f"r_ld{3 if means_after else 2} = f32[4] {read.replace('(h)', '(h_ld1)')}"
    root = f"t = (f32[4], f32[4]) tuple({'k_ld2, r_ld3' if means_after else 'k_ld3, r_ld2'})"
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", kernel, reader, root)
    lines = [call("k", "h", target), f"r = f32[4] {read}"]
    first, second = lines if runs_after else lines[::-1]
    text = f"x = f32[4] parameter(0)\nh = f32[4] copy(x)\n{first}\n{second}\nROOT t = (f32[4], f32[4]) tuple(k, r)"
    return replay(program, parse(f"{{\n{text}\n}}"))


@pytest.mark.parametrize(
    ("means_after", "runs_after", "expected"),
    [(True, True, "fresh"), (True, False, "stale"), (False, False, "fresh"), (False, True, "neither")],
)
def test_the_order_of_a_read_and_a_hidden_write_shows(means_after: bool, runs_after: bool, expected: str) -> None:
    found = run_reader(means_after=means_after, runs_after=runs_after)
    assert attribute(found) == ["fresh", expected]
    numbers = found.outputs["o1"]
    assert (numbers.error <= LEAST / 1e4) if expected == "fresh" else (numbers.error > 1e6 * LEAST)


def test_a_program_in_a_narrow_type_is_told_apart_as_clearly() -> None:
    wide = parse_program("x = bf16[4] parameter(0)", "h_ld1 = bf16[4] copy(x)",
                         'k_ld2 = bf16[4] custom-call(h_ld1), custom_call_target="mine"',
                         "s_ld3 = bf16[4] add(h_ld1, h_ld1)", "t = (bf16[4], bf16[4]) tuple(k_ld2, s_ld3)")  # fmt: skip
    lines = ["x = bf16[4] parameter(0)", "h = bf16[4] copy(x)", "r = bf16[4] add(h, h)",
             'k = bf16[4] custom-call(h), custom_call_target="mine"', "ROOT t = (bf16[4], bf16[4]) tuple(k, r)"]  # fmt: skip
    found = replay(wide, parse("{\n" + "\n".join(lines) + "\n}"))
    assert attribute(found) == ["fresh", "stale"]
    assert found.outputs["o1"].tolerance == LEAST


def test_a_constant_that_xla_folds_before_an_opaque_call_reads_the_product_makes_no_wrong_output() -> None:
    """In bf16, 1.38 times 0.54 is rounded, so that the call reads other numbers than in the program."""
    kernel = 'k%s = f32[4] custom-call(h%s, %s), custom_call_target="mine"'
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)",
                            "w_ld2 = f32[4,4] broadcast(x), dimensions={1}", "y_ld3 = bf16[4,4] convert(w_ld2)",
                            "a = bf16[] constant(1.38)", "a_ld4 = bf16[4,4] broadcast(a), dimensions={}",
                            "b = bf16[] constant(0.54)", "b_ld5 = bf16[4,4] broadcast(b), dimensions={}",
                            "m_ld6 = bf16[4,4] multiply(y_ld3, a_ld4)", "n_ld7 = bf16[4,4] multiply(m_ld6, b_ld5)",
                            kernel % ("_ld8", "_ld1", "n_ld7"), "r_ld9 = f32[4] negate(h_ld1)",
                            "t = (f32[4], f32[4]) tuple(k_ld8, r_ld9)")  # fmt: skip
    lines = ["x = f32[4] parameter(0)", "h = f32[4] copy(x)", "w = f32[4,4] broadcast(x), dimensions={1}",
             "y = bf16[4,4] convert(w)", "a = bf16[] constant(0.746)", "b = bf16[4,4] broadcast(a), dimensions={}",
             "n = bf16[4,4] multiply(y, b)", kernel % ("", "", "n"), "r = f32[4] negate(h)"]  # fmt: skip
    places = {"x": (0, 0), "h": 0, "k": 64, "r": 128, "t": 192, "a": 256, "w": 320, "y": 384, "b": 448, "n": 512}
    argument = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    found = [
        replay(
            program,
            parse("{\n" + "\n".join([*order, "ROOT t = (f32[4], f32[4]) tuple(k, r)"]) + "\n}"),
            places,
            argument,
        )
        for order in (lines, [*lines[:-2], lines[-1], lines[-2]])
    ]
    assert attribute(found[0])[1] == "undecided", found[0]
    assert 1e3 * LEAST < found[0].outputs["o1"].error < 2e-4
    assert attribute(found[1])[1] == "stale"


def test_a_read_of_elements_that_the_call_leaves_alone_is_fresh_in_either_order() -> None:
    for runs_after in (True, False):
        found = run_reader(means_after=True, runs_after=runs_after, target="part", read="negate(h)")
        assert attribute(found)[1] == ("fresh" if runs_after else "stale")
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1", "part"),
                            "s_ld3 = f32[2] slice(h_ld1), slice={[2:4]}",
                            "t = (f32[4], f32[2]) tuple(k_ld2, s_ld3)")  # fmt: skip
    lines = ["x = f32[4] parameter(0)", "h = f32[4] copy(x)", "r = f32[2] slice(h), slice={[2:4]}",
             call("k", "h", "part"), "ROOT t = (f32[4], f32[2]) tuple(k, r)"]  # fmt: skip
    assert attribute(replay(program, parse("{\n" + "\n".join(lines) + "\n}"))) == ["fresh", "fresh"]


def run_two(order: str) -> list[str]:
    """Runs two calls that update one value, then a reader; `order` is that of the schedule."""
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1", "one"),
                            call("k_ld3", "h_ld1", "two"), "r_ld4 = f32[4] negate(h_ld1)",
                            "t = (f32[4], f32[4], f32[4]) tuple(k_ld2, k_ld3, r_ld4)")  # fmt: skip
    lines = {"1": call("k", "h", "one"), "2": call("k2", "h", "two"), "r": "r = f32[4] negate(h)"}
    text = "\n".join(["x = f32[4] parameter(0)", "h = f32[4] copy(x)", *(lines[one] for one in order)])
    return attribute(replay(program, parse(f"{{\n{text}\nROOT t = (f32[4], f32[4], f32[4]) tuple(k, k2, r)\n}}")))


def test_two_writers_of_one_value_are_told_apart() -> None:
    assert run_two("12r") == ["fresh", "fresh", "fresh"]
    assert run_two("r12") == ["fresh", "fresh", "stale"]
    assert run_two("1r2") == ["fresh", "fresh", "neither"]
    assert run_two("21r") == ["neither", "stale", "neither"]


def test_merged_calls_compute_what_each_of_them_did() -> None:
    program = parse_program("x = f32[4] parameter(0)", "a_ld1 = f32[4] copy(x)", "b_ld2 = f32[4] copy(x)",
                            call("k_ld3", "a_ld1"), call("k_ld4", "b_ld2"),
                            "t = (f32[4], f32[4]) tuple(k_ld3, k_ld4)")  # fmt: skip
    lines = ["x = f32[4] parameter(0)", "h = f32[4] copy(x)", call("k", "h"), "r = f32[4] copy(k)",
             "ROOT t = (f32[4], f32[4]) tuple(k, r)"]  # fmt: skip
    assert attribute(replay(program, parse("{\n" + "\n".join(lines) + "\n}"))) == ["fresh", "fresh"]


LOOP = """body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  %s
  ROOT next = (s32[], f32[4]) tuple(j, o)
}
condition {
  cs = (s32[], f32[4]) parameter(0)
  ci = s32[] get-tuple-element(cs), index=0
  three = s32[] constant(40)
  ROOT less = pred[] compare(ci, three), direction=LT
}"""


def run_loop(before: bool) -> OpaqueReplay:
    kernel = 'k = f32[4] custom-call(h), custom_call_target="mine"'
    tagged = f'{kernel}, metadata={{op_name="f#ld11"}}\n  o = f32[4] add(h, k), metadata={{op_name="f#ld12"}}'
    lines = ["x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", "zero = s32[] constant(0)",
             "start = (s32[], f32[4]) tuple(zero, h_ld1)",
             "w_ld2 = (s32[], f32[4]) while(start), condition=condition, body=body",
             "out = f32[4] get-tuple-element(w_ld2), index=1"]  # fmt: skip
    program = parse_program(*lines, computations=LOOP % tagged)
    read = "q = f32[4] copy(h)"
    steps = f"{read}\n  {kernel}\n  o = f32[4] add(q, k)" if before else f"{kernel}\n  {read}\n  o = f32[4] add(q, k)"
    body = """{
x = f32[4] parameter(0)
h0 = f32[4] copy(x)
zero = s32[] constant(0)
i0 = s32[] copy(zero)
start = (s32[], f32[4]) tuple(i0, h0)
w = (s32[], f32[4]) while(start), condition=condition, body=body
ROOT out = f32[4] get-tuple-element(w), index=1
}"""
    places = {"x": (0, 0), "h0": 0, "zero": (50, 0), "i0": 64, "one": (51, 0), "three": (52, 0), "j": 64, "k": 128,
              "q": 256, "o": 0, "less": 192, "w{0}": 64, "w{1}": 0}  # fmt: skip
    return replay(program, parse(body, LOOP % steps), places)


def test_a_loop_that_repeats_a_call_keeps_its_precision() -> None:
    assert attribute(run_loop(before=False)) == ["fresh"]
    assert run_loop(before=False).outputs["o0"].error < LEAST
    assert attribute(run_loop(before=True)) == ["stale"]


CONDITIONAL = """write {
  wp = f32[4] parameter(0)
  ROOT k = f32[4] custom-call(wp), custom_call_target="mine"
}
leave {
  ROOT lp = f32[4] parameter(0)
}"""


@pytest.mark.parametrize(("before", "sign", "expected"), [(False, 1, "fresh"), (True, 1, "stale"), (True, -1, "fresh")])
def test_a_write_in_a_branch_counts_if_the_branch_is_taken(before: bool, sign: int, expected: str) -> None:
    condition = ["e_ld2 = f32[1] slice(x), slice={[0:1]}", "z_ld3 = f32[] reshape(e_ld2)", "n = f32[] constant(0)",
                 "p_ld4 = pred[] compare(z_ld3, n), direction=GT"]  # fmt: skip
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", *condition,
                            "c_ld5 = f32[4] conditional(p_ld4, h_ld1, h_ld1), true_computation=write,"
                            " false_computation=leave",
                            "r_ld6 = f32[4] negate(h_ld1)", "t = (f32[4], f32[4]) tuple(c_ld5, r_ld6)",
                            computations=CONDITIONAL)  # fmt: skip
    taken = "c = f32[4] conditional(p, h, h), true_computation=write, false_computation=leave"
    lines = [taken, "r = f32[4] negate(h)"]
    text = "\n".join(["x = f32[4] parameter(0)", "h = f32[4] copy(x)", "e = f32[1] slice(x), slice={[0:1]}",
                      "z = f32[] reshape(e)", "n = f32[] constant(0)", "p = pred[] compare(z, n), direction=GT",
                      *(lines[::-1] if before else lines)])  # fmt: skip
    schedule = parse(f"{{\n{text}\nROOT t = (f32[4], f32[4]) tuple(c, r)\n}}", CONDITIONAL)
    places = PLACES | {"e": 400, "z": 464, "n": (50, 0), "p": 528, "wp": 0, "lp": 0, "k": 64, "c": 320}
    argument = sign * np.array([1, 2, 3, 4], np.float32)
    assert attribute(replay(program, schedule, places, argument))[1] == expected


def test_a_constant_that_xla_has_rounded_is_no_difference() -> None:
    rounded = float(np.float32(1 / 3))
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1"),
                            "three = f32[] constant(3)", "b_ld3 = f32[4] broadcast(three), dimensions={}",
                            "r_ld4 = f32[4] divide(h_ld1, b_ld3)", "t = (f32[4], f32[4]) tuple(k_ld2, r_ld4)")  # fmt: skip
    for before, expected in ((False, "fresh"), (True, "stale")):
        lines = [call("k", "h"), "r = f32[4] multiply(h, b)"]
        text = "\n".join(["x = f32[4] parameter(0)", "h = f32[4] copy(x)", f"n = f32[] constant({rounded!r})",
                          "b = f32[4] broadcast(n), dimensions={}", *(lines[::-1] if before else lines)])  # fmt: skip
        schedule = parse(f"{{\n{text}\nROOT t = (f32[4], f32[4]) tuple(k, r)\n}}")
        found = replay(program, schedule, PLACES | {"n": (50, 0), "b": 400})
        assert attribute(found) == ["fresh", expected]
        assert LEAST < found.outputs["o1"].tolerance < 1e-6


@pytest.mark.parametrize(("size", "expected"), [("1e-5", "neither"), ("1e-7", "undecided")])
def test_a_small_stale_term_is_never_lossy_or_fresh(size: str, expected: str) -> None:
    """Below 1e-6 of the output, rounding in f32 could explain it as well."""
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1"),
                            f"tiny = f32[] constant({size})", "b_ld3 = f32[4] broadcast(tiny), dimensions={}",
                            "m_ld4 = f32[4] multiply(h_ld1, b_ld3)", "r_ld5 = f32[4] add(m_ld4, h_ld1)",
                            "t = (f32[4], f32[4]) tuple(k_ld2, r_ld5)")  # fmt: skip
    text = "\n".join(["x = f32[4] parameter(0)", "h = f32[4] copy(x)", f"n = f32[] constant({size})",
                      "b = f32[4] broadcast(n), dimensions={}", "c = f32[4] multiply(h, b)", call("k", "h"),
                      "r = f32[4] add(c, h)"])  # fmt: skip
    schedule = parse(f"{{\n{text}\nROOT t = (f32[4], f32[4]) tuple(k, r)\n}}")
    found = replay(program, schedule, PLACES | {"n": (50, 0), "b": 400})
    assert attribute(found) == ["fresh", expected]


def test_a_call_that_the_program_does_not_have_is_not_covered() -> None:
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1", "mine"))
    schedule = parse("{\nx = f32[4] parameter(0)\nh = f32[4] copy(x)\nROOT " + call("k", "h", "other") + "\n}")
    found = replay(program, schedule)
    assert found.state is ReplayState.NOT_COVERED
    assert "XLA has changed the payload" in found.reason


@pytest.mark.parametrize("runs_after", [True, False])
def test_a_stale_predicate_shows_in_one_of_several_runs(runs_after: bool) -> None:
    """The predicate compares two elements that the call writes: it may well be the same before the call."""
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1"),
                            "a_ld3 = f32[1] slice(h_ld1), slice={[0:1]}", "b_ld4 = f32[1] slice(h_ld1), slice={[1:2]}",
                            "c_ld5 = pred[1] compare(a_ld3, b_ld4), direction=GT", "p_ld6 = pred[] reshape(c_ld5)",
                            "r_ld7 = f32[4] conditional(p_ld6, x, x), true_computation=one, false_computation=two",
                            "t = (f32[4], f32[4]) tuple(k_ld2, r_ld7)", computations=BRANCHES)  # fmt: skip
    reads = ["a = f32[1] slice(h), slice={[0:1]}", "b = f32[1] slice(h), slice={[1:2]}",
             "c = pred[1] compare(a, b), direction=GT"]  # fmt: skip
    lines = [call("k", "h"), *reads] if runs_after else [*reads, call("k", "h")]
    text = "\n".join(["x = f32[4] parameter(0)", "h = f32[4] copy(x)", *lines, "p = pred[] reshape(c)",
                      "r = f32[4] conditional(p, x, x), true_computation=one, false_computation=two"])  # fmt: skip
    schedule = parse(f"{{\n{text}\nROOT t = (f32[4], f32[4]) tuple(k, r)\n}}", BRANCHES)
    places = PLACES | {"a": 400, "b": 464, "c": 528, "p": 592, "op": (0, 0), "tp": (0, 0), "on": 656, "tn": 656}
    attributions = set[bool]()
    for first in (0.2, 0.5, 2.0):  # with the first two, one run alone takes the same branch in both orders
        found = replay(program, schedule, places, np.array([first, 1.5, 3, 4], np.float32))
        attributions.add(found.outputs["o1"].attribution.is_wrong)
    assert attributions == {not runs_after}


@pytest.mark.parametrize("runs_after", [True, False])
def test_a_comparison_with_0_of_what_a_call_computes_shows_which_contents_it_read(runs_after: bool) -> None:
    """The predicate is about an output of a second call, which reads the first one's contents."""
    lines = ["h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1"), call("m_ld3", "h_ld1", "reads"),
             "a_ld4 = f32[1] slice(m_ld3), slice={[0:1]}", "z = f32[] constant(0)", "b_ld5 = f32[] reshape(a_ld4)",
             "p_ld6 = pred[] compare(b_ld5, z), direction=GT",
             "r_ld7 = f32[4] conditional(p_ld6, x, x), true_computation=one, false_computation=two"]  # fmt: skip
    program = parse_program("x = f32[4] parameter(0)", *lines, "t = (f32[4], f32[4]) tuple(k_ld2, r_ld7)",
                            computations=BRANCHES)  # fmt: skip
    plain = [re.sub(r"_ld\d+", "", line) for line in lines]
    order = plain if runs_after else [plain[0], plain[2], plain[1], *plain[3:]]
    text = "\n".join(["x = f32[4] parameter(0)", *order])
    schedule = parse(f"{{\n{text}\nROOT t = (f32[4], f32[4]) tuple(k, r)\n}}", BRANCHES)
    places = PLACES | {"a": 400, "b": 464, "z": (50, 0), "p": 528, "m": 720, "op": (0, 0), "tp": (0, 0), "on": 656}
    found = [
        replay(program, schedule, places | {"tn": 656}, np.array([first, 1.5, 3, 4], np.float32)).outputs["o1"]
        for first in (0.2, 0.5, 2.0)
    ]
    assert any(one.attribution.is_wrong for one in found) is not runs_after


BRANCHES = """one {
  op = f32[4] parameter(0)
  ROOT on = f32[4] negate(op)
}
two {
  tp = f32[4] parameter(0)
  ROOT tn = f32[4] exponential(tp)
}"""


def run_sort(*, runs_after: bool) -> list[str]:
    """Sorts what a kernel overwrites: by a total order in the program, and by the bits of the floats in the schedule."""
    total = """order {
a = f32[] parameter(0)
b = f32[] parameter(1)
ROOT less = pred[] compare(a, b), direction=LT, type=TOTALORDER
}"""
    bits = f"""order {{
a = f32[] parameter(0)
b = f32[] parameter(1)
{write_key("p", "a")}{write_key("q", "b")}ROOT less = pred[] compare(p, q), direction=LT
}}"""
    sort = "f32[4] sort(%s), dimensions={0}, to_apply=order"
    program = parse_program("x = f32[4] parameter(0)", "h_ld1 = f32[4] copy(x)", call("k_ld2", "h_ld1"),
                            f"r_ld3 = {sort % 'h_ld1'}", "t = (f32[4], f32[4]) tuple(k_ld2, r_ld3)",
                            computations=total)  # fmt: skip
    steps = [call("k", "h"), f"r = {sort % 'h'}"]
    lines = ["x = f32[4] parameter(0)", "h = f32[4] copy(x)", *(steps if runs_after else reversed(steps)),
             "ROOT t = (f32[4], f32[4]) tuple(k, r)"]  # fmt: skip
    schedule = parse("{\n" + "\n".join(lines) + "\n}", bits)
    return attribute(replay(program, schedule, argument=np.array([3, -1, 0, -7], np.float32)))


def test_a_sort_by_the_bits_of_floats_is_judged() -> None:
    assert run_sort(runs_after=True) == ["fresh", "fresh"]
    assert run_sort(runs_after=False) == ["fresh", "stale"]
