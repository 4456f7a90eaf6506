"""Integers made of the bits of floats order the floats of 64 bits, or are not covered."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ligerdiag.hlo.module import HloModule
from ligerdiag.replay.opaque_runs.wide_memory import WideScheduleRunner
from ligerdiag.replay.opaque_runs.widening import widen_array, widen_module
from ligerdiag.replay.ops.scope import NotCoveredError
from tests.replay.by_hand import Doubling, assign, parse
from tests.replay.xla_cpu import evaluate_module, parse_text

MAX = {"s16": 2**15 - 1, "s32": 2**31 - 1, "s64": 2**63 - 1}
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTEGERS = {"f16": "s16", "bf16": "s16", "f32": "s32", "f64": "s64"}
VALUES = [0.0, -0.0, 1.0, -1.0, 1.5, -1.5, 1e-3, -1e-3, 3e4, -3e4, np.inf, -np.inf, np.nan, -np.nan]


def write_key(name: str, of: str, float_type: str = "f32", opcode: str = "bitcast") -> str:
    """Returns the lines in which XLA makes an integer that compares as the float `of` does in the total order."""
    kind = INTEGERS[float_type]
    return f"""{name}b = {kind}[] {opcode}({of})
{name}z = {kind}[] constant(0)
{name}m = {kind}[] constant({MAX[kind]})
{name}n = pred[] compare({name}b, {name}z), direction=LT
{name}x = {kind}[] xor({name}m, {name}b)
{name} = {kind}[] select({name}n, {name}x, {name}b)
"""


def write_sort(float_type: str = "f32", opcode: str = "bitcast") -> str:
    """Returns a comparator that orders pairs of a float and an integer as XLA writes it for a stable sort."""
    return f"""comparator {{
a = {float_type}[] parameter(0)
b = {float_type}[] parameter(1)
i = s32[] parameter(2)
j = s32[] parameter(3)
{write_key("p", "a", float_type, opcode)}{write_key("q", "b", float_type, opcode)}
below = pred[] compare(p, q), direction=LT
above = pred[] compare(q, p), direction=LT
tie = pred[] compare(below, above), direction=EQ
first = pred[] compare(i, j), direction=LT
ROOT less = pred[] select(tie, first, below)
}}"""


def compare_pairs(body: str, float_type: str = "f32", values: Any = VALUES) -> tuple[list[Any], list[Any]]:
    """Returns the answers of a computation for all pairs of floats `a` and `b`: in the own type, and in f64."""
    numbers = np.array(values, FLOATS[float_type])
    count = len(numbers)
    pairs = [np.repeat(numbers, count), np.tile(numbers, count)]
    module = parse_text(f"""HloModule m
ENTRY main {{
a = {float_type}[] parameter(0)
b = {float_type}[] parameter(1)
{body}
}}""")
    wide = evaluate_module(widen_module(module), [widen_array(one) for one in pairs])
    own = evaluate_module(module, pairs)
    assert not isinstance(own, tuple)
    assert not isinstance(wide, tuple)
    return own.tolist(), wide.tolist()


@pytest.mark.parametrize("opcode", ["bitcast", "bitcast-convert"])
@pytest.mark.parametrize("float_type", FLOATS)
def test_a_sort_by_bits_orders_floats_as_their_own_type_does(float_type: str, opcode: str) -> None:
    count = len(VALUES)
    module = parse_text(f"""HloModule m
{write_sort(float_type, opcode)}
ENTRY main {{
x = {float_type}[{count}] parameter(0)
n = s32[{count}] iota(), iota_dimension=0
s = ({float_type}[{count}], s32[{count}]) sort(x, n), dimensions={{0}}, to_apply=comparator
ROOT order = s32[{count}] get-tuple-element(s), index=1
}}""")
    values = np.array(VALUES, FLOATS[float_type])
    own, wide = evaluate_module(module, [values]), evaluate_module(widen_module(module), [widen_array(values)])
    assert not isinstance(own, tuple)
    assert not isinstance(wide, tuple)
    assert wide.tolist() == own.tolist() == [13, 11, 9, 5, 3, 7, 1, 0, 6, 2, 4, 8, 10, 12]


def test_a_sort_by_bits_orders_what_only_64_bits_distinguish() -> None:
    module = parse_text(f"""HloModule m
{write_sort("bf16")}
ENTRY main {{
x = bf16[4] parameter(0)
n = s32[4] iota(), iota_dimension=0
ROOT s = (bf16[4], s32[4]) sort(x, n), dimensions={{0}}, to_apply=comparator
}}""")
    found = evaluate_module(widen_module(module), [np.array([1 + 2e-16, 1, -1, -1 - 2e-16])])
    assert isinstance(found, tuple)
    assert [one.tolist() for one in found if not isinstance(one, tuple)] == [
        [-1 - 2.220446049250313e-16, -1, 1, 1 + 2.220446049250313e-16],
        [3, 2, 1, 0],
    ]


READ = "p = s32[] bitcast(a)\nq = s32[] bitcast(b)\n"
WORDS = f"""zero = s32[] constant(0)
ones = s32[] constant(-1)
max = s32[] constant({MAX["s32"]})
min = s32[] constant({-MAX["s32"] - 1})
last = s32[] constant(31)
five = s32[] constant(5)
"""
SMEAR = "t = s32[] shift-right-arithmetic(p, last)\nu = s32[] shift-right-arithmetic(q, last)\n"
MASKED = "v = s32[] and(t, max)\nw = s32[] and(u, max)\nkp = s32[] xor(p, v)\nkq = s32[] xor(q, w)\n"

COVERED = {
    "a sign": READ + "ROOT r = pred[] compare(p, zero), direction=LT",
    "a sign, with -1": READ + "ROOT r = pred[] compare(p, ones), direction=GT",
    "zero": READ + "ROOT r = pred[] compare(zero, p), direction=EQ",
    "both zeros": READ + "d = s32[] and(p, max)\nROOT r = pred[] compare(d, zero), direction=NE",
    "equal floats": READ + "ROOT r = pred[] compare(p, q), direction=EQ",
    "a sign without one": """p = u32[] bitcast(a)
high = u32[] constant(2147483648)
ROOT r = pred[] compare(p, high), direction=GE""",
    "magnitudes": READ + "d = s32[] and(p, max)\ne = s32[] and(q, max)\nROOT r = pred[] compare(d, e), direction=GT",
    "a shifted sign": READ + SMEAR + MASKED + "ROOT r = pred[] compare(kp, kq), direction=LE",
    "the other branch": READ
    + "s = pred[] compare(p, zero), direction=GE\nx = s32[] xor(p, max)\nkp = s32[] select(s, p, x)\n"
    + "t = pred[] compare(q, zero), direction=GE\ny = s32[] xor(max, q)\nkq = s32[] select(t, q, y)\n"
    + "ROOT r = pred[] compare(kq, kp), direction=GE",
    "unsigned": """p = u32[] bitcast(a)
q = u32[] bitcast(b)
i = s32[] bitcast(p)
j = s32[] bitcast(q)
high = u32[] constant(2147483648)
s = pred[] compare(i, zero), direction=LT
t = pred[] compare(j, zero), direction=LT
np = u32[] not(p)
nq = u32[] not(q)
fp = u32[] or(p, high)
fq = u32[] or(q, high)
kp = u32[] select(s, np, fp)
kq = u32[] select(t, nq, fq)
ROOT r = pred[] compare(kp, kq), direction=LT""",
    "negated floats": READ
    + "x = s32[] xor(p, min)\ny = s32[] xor(q, min)\ns = pred[] compare(x, zero), direction=LT\n"
    + "t = pred[] compare(y, zero), direction=LT\nmx = s32[] xor(x, max)\nmy = s32[] xor(y, max)\n"
    + "kp = s32[] select(s, mx, x)\nkq = s32[] select(t, my, y)\nROOT r = pred[] compare(kp, kq), direction=LT",
}


@pytest.mark.parametrize("body", COVERED.values(), ids=list(COVERED))
def test_integers_of_64_bits_give_the_answers_of_narrower_ones(body: str) -> None:
    own, wide = compare_pairs(WORDS + body)
    assert wide == own
    assert True in own
    assert False in own


REFUSED = {
    "bits and flipped bits": READ + "n = s32[] xor(q, max)\nROOT r = pred[] compare(p, n), direction=LT",
    "flipped bits and zero": READ + "n = s32[] xor(q, max)\nROOT r = pred[] compare(n, zero), direction=EQ",
    "another constant": READ + "ROOT r = pred[] compare(p, five), direction=LT",
    "another mask": READ + "d = s32[] and(p, five)\nROOT r = pred[] compare(d, zero), direction=EQ",
    "another shift": READ
    + "d = s32[] shift-right-arithmetic(p, five)\nROOT r = pred[] compare(d, zero), direction=LT",
    "arithmetic": READ + "d = s32[] subtract(p, q)\nROOT r = pred[] compare(d, zero), direction=LT",
    "the bits of two floats": READ + "d = s32[] xor(p, q)\nROOT r = pred[] compare(d, zero), direction=LT",
    "a sign of another float": READ
    + "s = pred[] compare(q, zero), direction=LT\nx = s32[] xor(p, max)\nk = s32[] select(s, x, p)\n"
    + "ROOT r = pred[] compare(k, zero), direction=LT",
    "a choice that no sign makes": READ
    + "s = pred[] compare(p, q), direction=LT\nk = s32[] select(s, p, q)\nROOT r = pred[] compare(k, q), direction=LT",
    "the bits as a number": READ + "f = f32[] convert(p)\nROOT r = pred[] compare(f, b), direction=LT",
    "an integer that is no constant": READ
    + "i = s32[] convert(b)\nROOT r = pred[] compare(p, i), direction=LT",
    "a tuple": READ + "t = (s32[], s32[]) tuple(p, q)\ng = s32[] get-tuple-element(t), index=0\n"
    + "ROOT r = pred[] compare(g, zero), direction=LT",
    "floats of two types": "h = f16[] convert(a)\nw = bf16[] convert(b)\np = s16[] bitcast(h)\nq = s16[] bitcast(w)\n"
    + "ROOT r = pred[] compare(p, q), direction=LT",
    "other widths": "p = f32[2] broadcast(a), dimensions={}\nq = s64[] bitcast(p)\nc = s64[] constant(0)\n"
    + "ROOT r = pred[] compare(q, c), direction=LT",
    "floats without infinity": "h = f8e4m3fn[] convert(a)\np = s8[] bitcast(h)\nc = s8[] constant(0)\n"
    + "ROOT r = pred[] compare(p, c), direction=LT",
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED.values(), ids=list(REFUSED))
def test_any_other_use_of_the_bits_is_not_covered(body: str) -> None:
    with pytest.raises(NotCoveredError, match="a bitcast to another element type, in f64"):
        compare_pairs(WORDS + body)


def test_bits_that_leave_the_computation_are_not_covered() -> None:
    lines = write_key("k", "a").replace("\nk =", "\nROOT k =")
    module = parse_text(f"HloModule m\nENTRY main {{\na = f32[] parameter(0)\n{lines}}}\n")
    with pytest.raises(NotCoveredError, match="`kb`: a bitcast to another element type"):
        widen_module(module)


def test_constants_keep_their_width_for_other_integers() -> None:
    own, wide = compare_pairs(
        f"{WORDS}{READ}s = pred[] compare(p, max), direction=GT\ni = s32[] convert(b)\n"
        "t = pred[] compare(i, max), direction=EQ\nROOT r = pred[] or(s, t)"
    )
    assert wide == own
    assert True in own


def test_arrays_use_broadcast_constants() -> None:
    body = """{
x = f32[4] parameter(0)
b = s32[4] bitcast(x)
z = s32[] constant(0)
zs = s32[4] broadcast(z), dimensions={}
ROOT n = pred[4] compare(b, zs), direction=LT
}"""
    module = widen_module(parse_text(f"HloModule m\nENTRY main {body}\n"))
    found = evaluate_module(module, [np.array([0, -0.0, -1e-300, 1])])
    assert not isinstance(found, tuple)
    assert found.tolist() == [False, True, True, False]


def run(module: HloModule, places: dict[str, int | tuple[int, int]], argument: Any) -> list[Any]:
    runner = WideScheduleRunner(
        module=widen_module(module), buffers=assign(module, places), kernels=Doubling(), original=module
    )
    return [output.tolist() for output in runner.execute([[widen_array(argument)]])[0]]


def test_a_schedule_sorts_by_bits() -> None:
    module = parse("""{
x = f32[4] parameter(0)
n = s32[4] iota(), iota_dimension=0
ROOT s = (f32[4], s32[4]) sort(x, n), dimensions={0}, to_apply=comparator
}""", write_sort())  # fmt: skip
    assert all(one.sequence for one in module.computations.values())
    places: dict[str, int | tuple[int, int]] = {"x": (0, 0), "n": 128, "s{0}": 0, "s{1}": 64, "s": 192}
    assert run(module, places, np.array([3, -1, 0, -7], np.float32)) == [[-7, -1, 0, 3], [3, 1, 2, 0]]


def test_bits_that_the_schedule_stores_are_not_covered() -> None:
    module = parse("{\nx = f32[4] parameter(0)\nb = s32[4] bitcast(x)\nz = s32[4] constant({0, 0, 0, 0})\n"
                   "ROOT n = pred[4] compare(b, z), direction=LT\n}")  # fmt: skip
    with pytest.raises(NotCoveredError, match="`b`: a bitcast to another element type"):
        widen_module(module)
    module = parse("{\nx = s32[4] parameter(0)\nROOT b = f32[4] bitcast(x)\n}")
    with pytest.raises(NotCoveredError, match="`b`: a bitcast to another element type"):
        widen_module(module)


def test_integers_share_bytes_with_others_of_their_width_only() -> None:
    lines = "{\nx = f32[4] parameter(0)\ni = s32[4] convert(x)\nu = %s bitcast(i)\nROOT c = %s copy(u)\n}"
    places: dict[str, int | tuple[int, int]] = {"x": (0, 0), "i": 0, "u": 0, "c": 64}
    values = np.array([1, -1, 2, -2], np.float32)
    assert run(parse(lines % ("u32[4]", "u32[4]")), places, values) == [[1, 2**32 - 1, 2, 2**32 - 2]]
    with pytest.raises(NotCoveredError, match="`u`: a bitcast to another element type"):
        widen_module(parse(lines % ("s64[2]", "s64[2]")))


def test_a_fusion_reads_floats_from_the_bits_of_integers() -> None:
    fused = """fused {
p = u32[2] parameter(0)
one = u32[] constant(1065353216)
ones = u32[2] broadcast(one), dimensions={}
bits = u32[2] or(p, ones)
ROOT f = f32[2] bitcast(bits)
}"""
    module = parse("{\nx = u32[2] parameter(0)\nROOT g = f32[2] fusion(x), kind=kLoop, calls=fused\n}", fused)
    found = run(module, {"x": (0, 0), "g": 64}, np.array([0, 1], np.uint32))
    assert found == [[1, 1 + 2.0**-23]]
