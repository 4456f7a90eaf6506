"""Schedules in which a result stands in the very bytes of an operand, each with its answer by hand.

It may, where an element of the operand is read before its own place is written, and never afterwards. `t` is the operand and
`r` the result, in the same bytes.
"""


def _write(result: str, shape: str = "f32[4,4]", *, more: str = "", root: str = "n = {shape} negate(r)") -> str:
    lines = f"  p = {shape} parameter(0)\n  t = {shape} negate(p)\n  r = {shape} {result}\n  ROOT {root.format(shape=shape)}"
    return f"{more}ENTRY e {{\n{lines}\n}}"


def _fuse(body: str, kind: str = "kLoop", shape: str = "f32[4,4]", computations: str = "") -> str:
    """Returns the schedule of a fusion with one result. body: instructions that make `v` of `q`."""
    lines = "".join(f"  {line}\n" for line in body.format(shape=shape).split("; "))
    more = f"{computations}fused {{\n  q = {shape} parameter(0)\n{lines}}}\n"
    return _write(f"fusion(t), kind={kind}, calls=fused", shape, more=more)


def _fuse_two(first: str, second: str, kind: str = "kLoop", result: str = "f32[4,4]") -> str:
    """Returns the schedule of a fusion with two results, the first of which is `r`."""
    more = (
        f"fused {{\n  q = f32[4,4] parameter(0)\n  z = f32[] constant(0)\n  {first}\n  {second}\n"
        f"  ROOT o = (f32[4,4], {result}) tuple(v, w)\n}}\n"
    )
    return (
        f"{more}ENTRY e {{\n  p = f32[4,4] parameter(0)\n  t = f32[4,4] negate(p)\n"
        f"  f = (f32[4,4], {result}) fusion(t), kind={kind}, calls=fused\n  a = f32[4,4] get-tuple-element(f), index=0\n"
        f"  b = {result} get-tuple-element(f), index=1\n  x = f32[4,4] negate(a)\n  y = {result} negate(b)\n"
        f"  ROOT o = (f32[4,4], {result}) tuple(x, y)\n}}"
    )


_PLACES = {"t": 0, "r": 0}
_FIRST = {"t": 0, "f{0}": 0}
_WRONG = "t<r: 0"
_ROW = "w = f32[4] reduce(q, z), dimensions={1}, to_apply=sum"
_SOFT = (
    "z = f32[] constant(0); s = f32[4] reduce(q, z), dimensions={{1}}, to_apply=sum; b = {shape} broadcast(s),"
    " dimensions={{0}}; ROOT v = {shape} divide(q, b)"
)

OVER_AN_OPERAND = {
    "alone": (_write("sine(t)"), _PLACES, ""),
    "a reverse": (_write("reverse(t), dimensions={0}"), _PLACES, _WRONG),
    "a transpose": (_write("transpose(t), dimensions={1,0}"), _PLACES, _WRONG),
    "a copy": (_write("copy(t)"), _PLACES, ""),
    "a copy into another layout": (
        "ENTRY e {\n  p = f32[4,4] parameter(0)\n  t = f32[4,4]{1,0} negate(p)\n  r = f32[4,4]{0,1} copy(t)\n"
        "  ROOT n = f32[4,4]{0,1} negate(r)\n}",
        _PLACES,
        _WRONG,
    ),
    "a transpose that another layout makes a copy": (
        "ENTRY e {\n  p = f32[4,8] parameter(0)\n  t = f32[4,8]{1,0} negate(p)\n"
        "  r = f32[8,4]{0,1} transpose(t), dimensions={1,0}\n"
        "  ROOT n = f32[8,4]{0,1} negate(r)\n}",
        _PLACES,
        "",
    ),
    "a product": (_write("dot(t, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}"), _PLACES, _WRONG),
    "a product by cuBLAS": (_write('custom-call(t, p), custom_call_target="__cublas$gemm"'), _PLACES, _WRONG),
    "cuBLAS adds a product to it": (
        _write('custom-call(p, p, t), custom_call_target="__cublas$lt$matmul"'),
        _PLACES,
        "",
    ),
    "a kernel that declares no alias": (_write('custom-call(t), custom_call_target="k"'), _PLACES, _WRONG),
    "a kernel that declares one": (
        _write('custom-call(t), custom_call_target="k", output_to_operand_aliasing={{}: (0, {})}'),
        _PLACES,
        "",
    ),
    "a collective-permute": (_write("collective-permute(t), source_target_pairs={{0,1},{1,0}}"), _PLACES, _WRONG),
    "an all-reduce": (_write("all-reduce(t), replica_groups={{0,1}}, to_apply=sum"), _PLACES, ""),
    "an all-reduce of two, crosswise": (
        """ENTRY e {
  p = T parameter(0)
  t = T negate(p)
  u = T sine(p)
  r = (T, T) all-reduce(t, u), replica_groups={{0,1}}, to_apply=sum
  a = T get-tuple-element(r), index=0
  b = T get-tuple-element(r), index=1
  x = T negate(a)
  y = T negate(b)
  ROOT o = (T, T) tuple(x, y)
}""",
        {"t": 0, "u": 32, "r{0}": 32, "r{1}": 64},
        "u<r{0}: 1",
    ),
    "a fusion element by element": (
        _fuse("a = {shape} sine(q); b = {shape} add(a, q); c = f32[16] bitcast(b); ROOT v = {shape} bitcast(c)"),
        _PLACES,
        "",
    ),
    "a fusion that reverses": (
        _fuse("a = {shape} reverse(q), dimensions={{1}}; ROOT v = {shape} multiply(a, q)"),
        _PLACES,
        _WRONG,
    ),
    "a fusion that transposes": (
        _fuse("a = {shape} transpose(q), dimensions={{1,0}}; ROOT v = {shape} sine(a)", "kInput"),
        _PLACES,
        _WRONG,
    ),
    "a fusion that rolls": (
        _fuse(
            "a = f32[1,4] slice(q), slice={{[3:4],[0:4]}}; b = f32[3,4] slice(q), slice={{[0:3],[0:4]}};"
            " ROOT v = {shape} concatenate(a, b), dimensions={{0}}"
        ),
        _PLACES,
        _WRONG,
    ),
    "a product in Triton": (
        _fuse("ROOT v = {shape} dot(q, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", "kCustom"),
        _PLACES,
        _WRONG,
    ),
    "rows in Triton": (_fuse(_SOFT, "kCustom"), _PLACES, ""),
    "rows in a loop": (_fuse(_SOFT), _PLACES, _WRONG),
    "a cumulative sum": (
        _fuse(
            "z = f32[] constant(0); ROOT v = {shape} reduce-window(q, z), window={{size=1x4 pad=0_0x3_0}}, to_apply=sum"
        ),
        _PLACES,
        _WRONG,
    ),
    "a fusion that updates it": (
        _fuse(
            "u = f32[1,4] slice(q), slice={{[2:3],[0:4]}}; i = s32[] constant(2);"
            " ROOT v = {shape} dynamic-update-slice(q, u, i, i)"
        ),
        _PLACES,
        "",
    ),
    "a sum beside it, which is computed first": (
        _fuse_two("v = f32[4,4] sine(q)", _ROW, "kInput", "f32[4]"),
        _FIRST,
        "",
    ),
    "a sum beside it in a loop": (
        _fuse_two("v = f32[4,4] sine(q)", _ROW, "kLoop", "f32[4]"),
        _FIRST,
        "t<f{0}: 0 1",
    ),
    "another result beside it": (_fuse_two("v = f32[4,4] sine(q)", "w = f32[4,4] cosine(q)"), _FIRST, ""),
    "another result beside it, the other way round": (
        _fuse_two("v = f32[4,4] sine(q)", "w = f32[4,4] reverse(q), dimensions={0}"),
        _FIRST,
        "t<f{0}: 0 1",
    ),
    "a kernel in a dynamic-slice fusion": (
        _fuse(
            'c = {shape} custom-call(q), custom_call_target="k", output_to_operand_aliasing={{{{}}: (0, {{}})}}; ROOT v ='
            " {shape} bitcast(c)",
            "kCustom",
        ),
        _PLACES,
        "",
    ),
    "a kernel in a dynamic-slice fusion that declares no alias": (
        _fuse('c = {shape} custom-call(q), custom_call_target="k"; ROOT v = {shape} bitcast(c)', "kCustom"),
        _PLACES,
        _WRONG,
    ),
    "one number": (
        _fuse(
            "b = f32[8] broadcast(q), dimensions={{}}; z = f32[] constant(0);"
            " ROOT v = f32[] reduce(b, z), dimensions={{0}}, to_apply=sum",
            "kInput",
            "f32[]",
        ),
        _PLACES,
        "",
    ),
    "in a loop's body": (
        """body {
  s = (s32[], T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = T get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  t = T negate(x)
  r = T reverse(t), dimensions={0}
  v = T sine(r)
  ROOT o = (s32[], T) tuple(n, v)
}
cond {
  s = (s32[], T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(i, k), direction=LT
}
ENTRY e {
  p = T parameter(0)
  z = s32[] constant(0)
  j = s32[] copy(z)
  x = T copy(p)
  q = (s32[], T) tuple(j, x)
  w = (s32[], T) while(q), body=body, condition=cond
  ROOT u = T get-tuple-element(w), index=1
}""",
        _PLACES,
        _WRONG,
    ),
}
