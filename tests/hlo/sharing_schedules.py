"""Schedules in which values share bytes while they are alive, and twins in which none do, each with its answer by hand."""

HEAD = """
double {
  q = T parameter(0)
  ROOT r = T add(q, q)
}
pair {
  q = T parameter(0)
  a = T add(q, q)
  b = T negate(q)
  ROOT r = (T, T) tuple(a, b)
}
same {
  q = T parameter(0)
  a = T add(q, q)
  ROOT r = (T, T) tuple(a, a)
}
update {
  q = T parameter(0)
  u = f32[2] parameter(1)
  i = s32[] parameter(2)
  ROOT r = T dynamic-update-slice(q, u, i)
}
update_twice {
  q = T parameter(0)
  u = f32[2] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  a = T dynamic-update-slice(q, u, i)
  b = T dynamic-update-slice(q, u, j)
  ROOT r = (T, T) tuple(a, b)
}
call_twice {
  q = T parameter(0)
  c = (T, T) custom-call(q, q), custom_call_target="mine", output_to_operand_aliasing={{0}: (0, {}), {1}: (1, {})}
  a = T get-tuple-element(c), index=0
  b = T get-tuple-element(c), index=1
  ROOT r = (T, T) tuple(a, b)
}
apart {
  q = T parameter(0)
  p = T parameter(1)
  a = T negate(p)
  b = T abs(q)
  ROOT r = (T, T) tuple(a, b)
}
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
"""
KLOOP = "kind=kLoop, calls"

TWO_RESULTS = {
    "a fusion with two results": (
        f"""ENTRY e {{
  p = T parameter(0)
  f = (T, T) fusion(p), {KLOOP}=pair
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  ROOT o = (T, T) tuple(a, b)
}}""",
        {"f{0}": 0, "f{1}": 0},
        "f{0}<f{1} f{1}<f{0}: 0 1",
    ),
    "only one of the two is read, the other is written all the same": (
        f"""ENTRY e {{
  p = T parameter(0)
  f = (T, T) fusion(p), {KLOOP}=pair
  ROOT b = T get-tuple-element(f), index=1
}}""",
        {"f{0}": 0, "f{1}": 0},
        "f{1}<f{0}: 0",
    ),
    "neither is read": (
        f"""ENTRY e {{
  p = T parameter(0)
  f = (T, T) fusion(p), {KLOOP}=pair
  ROOT n = T negate(p)
}}""",
        {"f{0}": 0, "f{1}": 0},
        "",
    ),
    "the second lies in a part of the first": (
        f"""ENTRY e {{
  p = T parameter(0)
  f = (T, T) fusion(p), {KLOOP}=pair
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  x = T negate(a)
  y = T negate(b)
  ROOT o = (T, T) tuple(x, y)
}}""",
        {"f{0}": 0, "f{1}": 16},
        "f{0}<f{1} f{1}<f{0}: 0 1",
    ),
    "they touch and do not overlap": (
        f"""ENTRY e {{
  p = T parameter(0)
  f = (T, T) fusion(p), {KLOOP}=pair
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  ROOT s = T add(a, b)
}}""",
        {"f{0}": 0, "f{1}": 32},
        "",
    ),
    "both are one value inside of the fusion": (
        f"""ENTRY e {{
  p = T parameter(0)
  f = (T, T) fusion(p), {KLOOP}=same
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  ROOT s = T add(a, b)
}}""",
        {"f{0}": 0, "f{1}": 0},
        "",
    ),
    "two updates of one array, as in jax issue 39100": (
        f"""ENTRY e {{
  p = T parameter(0)
  u = f32[2] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  t = T negate(p)
  f = (T, T) fusion(t, u, i, j), {KLOOP}=update_twice
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  n = T negate(p)
  ROOT o = (T, T, T) tuple(a, b, n)
}}""",
        {},
        "f{0}<f{1} f{1}<f{0}: 0 1",
    ),
    "an all-reduce of two arrays": (
        """ENTRY e {
  p = T parameter(0)
  q = T parameter(1)
  r = (T, T) all-reduce(p, q), replica_groups={{0,1}}, to_apply=sum
  a = T get-tuple-element(r), index=0
  b = T get-tuple-element(r), index=1
  x = T negate(a)
  y = T negate(b)
  ROOT o = (T, T) tuple(x, y)
}""",
        {"r{0}": 0, "r{1}": 0},
        "r{0}<r{1} r{1}<r{0}: 0 1",
    ),
    "the two Refs of a kernel in a dynamic-slice fusion": (
        """ENTRY e {
  p = T parameter(0)
  z = T negate(p)
  f = (T, T) fusion(z), kind=kCustom, calls=call_twice
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  x = T negate(a)
  y = T abs(b)
  ROOT o = (T, T, T) tuple(x, y, p)
}""",
        {"z": 0, "f{0}": 0, "f{1}": 0},
        "f{0}<f{1} f{1}<f{0}: 0 1",
    ),
    "the two Refs of a kernel with a place each": (
        """ENTRY e {
  p = T parameter(0)
  z = T negate(p)
  f = (T, T) fusion(z), kind=kCustom, calls=call_twice
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  x = T negate(a)
  y = T abs(b)
  ROOT o = (T, T, T) tuple(x, y, p)
}""",
        {"z": 0, "f{0}": 0, "f{1}": 32},
        "",
    ),
    "a start of two arrays, read after its done": (
        """several {
  a = T parameter(0)
  b = T parameter(1)
  ROOT g = (T, T) all-reduce(a, b), replica_groups={{0,1}}, to_apply=sum
}
ENTRY e {
  p = T parameter(0)
  q = T parameter(1)
  s = ((T, T), (T, T)) async-start(p, q), calls=several
  d = (T, T) async-done(s)
  a = T get-tuple-element(d), index=0
  b = T get-tuple-element(d), index=1
  ROOT o = T subtract(a, b)
}""",
        {"g{0}": 0, "g{1}": 0},
        "g{0}<g{1} g{1}<g{0}: 0",
    ),
    "in the body of a loop, one element of whose state depends on it": (
        f"""body {{
  s = (s32[], T, T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = T get-tuple-element(s), index=1
  y = T get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  f = (T, T) fusion(x), {KLOOP}=pair
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  c = T subtract(a, b)
  h = T negate(y)
  ROOT r = (s32[], T, T) tuple(n, c, h)
}}
cond {{
  s = (s32[], T, T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(i, k), direction=LT
}}
ENTRY e {{
  p = T parameter(0)
  z = s32[] constant(0)
  j = s32[] copy(z)
  x = T copy(p)
  y = T copy(p)
  t = (s32[], T, T) tuple(j, x, y)
  w = (s32[], T, T) while(t), body=body, condition=cond
  v = T get-tuple-element(w), index=1
  u = T get-tuple-element(w), index=2
  ROOT o = (T, T) tuple(v, u)
}}""",
        {"f{0}": 0, "f{1}": 0},
        "f{0}<f{1} f{1}<f{0}: 0",
    ),
}

ONE_OUTPUT = {
    "two operands declared to be one output": (
        """ENTRY e {
  a = T parameter(0)
  b = T parameter(1)
  x = T negate(a)
  y = T abs(b)
  ROOT c = T custom-call(x, y), custom_call_target="mine", output_to_operand_aliasing={{}: (0, {}), {}: (1, {})}
}""",
        {"x": 0, "y": 0, "c": 0},
        "x<y: 0",
    ),
    "three operands": (
        """ENTRY e {
  a = T parameter(0)
  x = T negate(a)
  y = T abs(a)
  z = T sine(a)
  c = T custom-call(x, y, z), custom_call_target="k", output_to_operand_aliasing={{}: (0, {}), {}: (1, {}), {}: (2, {})}
  ROOT o = (T, T) tuple(c, a)
}""",
        {"x": 0, "y": 0, "z": 0, "c": 0},
        "x<z y<z: 0",
    ),
    "the second of two outputs, and the first is right": (
        """ENTRY e {
  a = T parameter(0)
  x = T negate(a)
  y = T abs(a)
  c = (T, T) custom-call(x, y), custom_call_target="k", output_to_operand_aliasing={{1}: (0, {}), {1}: (1, {})}
  g = T get-tuple-element(c), index=1
  n = T negate(a)
  ROOT o = (T, T) tuple(g, n)
}""",
        {"x": 0, "y": 0, "c{1}": 0},
        "x<y: 0",
    ),
    "one operand, and two outputs declared to be it": (
        """ENTRY e {
  a = T parameter(0)
  x = T negate(a)
  c = (T, T) custom-call(x), custom_call_target="k", output_to_operand_aliasing={{0}: (0, {}), {1}: (0, {})}
  f = T get-tuple-element(c), index=0
  g = T get-tuple-element(c), index=1
  ROOT o = T add(f, g)
}""",
        {"x": 0, "c{0}": 0, "c{1}": 0},
        "c{0}<c{1} c{1}<c{0}: 0",
    ),
    "the operands are one value": (
        """ENTRY e {
  a = T parameter(0)
  x = T negate(a)
  ROOT c = T custom-call(x, x), custom_call_target="k", output_to_operand_aliasing={{}: (0, {}), {}: (1, {})}
}""",
        {"x": 0, "c": 0},
        "",
    ),
    "the operands have places of their own": (
        """ENTRY e {
  a = T parameter(0)
  x = T negate(a)
  y = T abs(a)
  ROOT c = T custom-call(x, y), custom_call_target="k", output_to_operand_aliasing={{}: (0, {})}
}""",
        {"x": 0, "y": 32, "c": 0},
        "",
    ),
    "one operand behind a bitcast": (
        """ENTRY e {
  a = T parameter(0)
  b = f32[2,4] parameter(1)
  x = T negate(a)
  y = f32[2,4] abs(b)
  z = T bitcast(y)
  ROOT c = T custom-call(x, z), custom_call_target="k", output_to_operand_aliasing={{}: (0, {}), {}: (1, {})}
}""",
        {"x": 0, "y": 0, "c": 0},
        "x<y: 0",
    ),
    "both computed by one fusion": (
        f"""ENTRY e {{
  a = T parameter(0)
  f = (T, T) fusion(a), {KLOOP}=pair
  x = T get-tuple-element(f), index=0
  y = T get-tuple-element(f), index=1
  ROOT c = T custom-call(x, y), custom_call_target="k", output_to_operand_aliasing={{{{}}: (0, {{}}), {{}}: (1, {{}})}}
}}""",
        {"f{0}": 0, "f{1}": 0, "c": 0},
        "f{0}<f{1} f{1}<f{0}: 0",
    ),
    "in a branch": (
        """yes {
  a = T parameter(0)
  x = T negate(a)
  y = T abs(a)
  ROOT c = T custom-call(x, y), custom_call_target="k", output_to_operand_aliasing={{}: (0, {}), {}: (1, {})}
}
no {
  a = T parameter(0)
  ROOT m = T negate(a)
}
ENTRY e {
  a = T parameter(0)
  p = pred[] parameter(1)
  n = T sine(a)
  c = T conditional(p, a, a), true_computation=yes, false_computation=no
  ROOT o = (T, T) tuple(c, n)
}""",
        {"x": 0, "y": 0, "c": 0, "m": 0},
        "x<y: 0",
    ),
    "the call is started and awaited": (
        """wrapped {
  a = T parameter(0)
  b = T parameter(1)
  ROOT c = T custom-call(a, b), custom_call_target="k", output_to_operand_aliasing={{}: (0, {}), {}: (1, {})}
}
ENTRY e {
  p = T parameter(0)
  x = T negate(p)
  y = T abs(p)
  s = ((T, T), T) async-start(x, y), calls=wrapped
  ROOT d = T async-done(s)
}""",
        {"x": 0, "y": 0, "c": 0},
        "x<y: 0",
    ),
}

MISSING_COPY = {
    "a call writes over a value that is read later": (
        f"""ENTRY e {{
  p = T parameter(0)
  t = T fusion(p), {KLOOP}=double
  c = T custom-call(t), custom_call_target="mine", output_to_operand_aliasing={{{{}}: (0, {{}})}}
  u = T fusion(t), {KLOOP}=double
  ROOT o = (T, T) tuple(c, u)
}}""",
        {},
        "t<c: 1",
    ),
    "the later reader comes first": (
        f"""ENTRY e {{
  p = T parameter(0)
  t = T fusion(p), {KLOOP}=double
  u = T fusion(t), {KLOOP}=double
  c = T custom-call(t), custom_call_target="mine", output_to_operand_aliasing={{{{}}: (0, {{}})}}
  ROOT o = (T, T) tuple(c, u)
}}""",
        {},
        "",
    ),
    "a dynamic-update-slice": (
        """ENTRY e {
  p = T parameter(0)
  v = f32[2] parameter(1)
  i = s32[] parameter(2)
  t = T negate(p)
  c = T dynamic-update-slice(t, v, i)
  u = T sine(t)
  ROOT o = (T, T) tuple(c, u)
}""",
        {},
        "t<c: 1",
    ),
    "a fusion that updates in place, the old value behind a bitcast": (
        f"""ENTRY e {{
  p = T parameter(0)
  v = f32[2] parameter(1)
  i = s32[] parameter(2)
  t = T negate(p)
  b = f32[2,4] bitcast(t)
  c = T fusion(t, v, i), {KLOOP}=update
  u = f32[2,4] sine(b)
  ROOT o = (T, f32[2,4]) tuple(c, u)
}}""",
        {},
        "t<c: 1",
    ),
    "the old value is returned": (
        """ENTRY e {
  p = T parameter(0)
  t = T negate(p)
  c = T custom-call(t), custom_call_target="mine", output_to_operand_aliasing={{}: (0, {})}
  n = T negate(c)
  ROOT o = (T, T) tuple(n, t)
}""",
        {},
        "t<c: 1",
    ),
    "the start of a loop is read after it": (
        """body {
  s = (s32[], T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = T get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  m = T negate(x)
  ROOT r = (s32[], T) tuple(n, m)
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
  h = T sine(p)
  t = (s32[], T) tuple(j, h)
  w = (s32[], T) while(t), body=body, condition=cond
  v = T get-tuple-element(w), index=1
  u = T add(h, p)
  ROOT o = (T, T) tuple(v, u)
}""",
        {},
        "h<w{1}: 1",
    ),
    "what a loop reads in each iteration is overwritten in its body": (
        """body {
  s = (s32[], T, T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = T get-tuple-element(s), index=1
  y = T get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  m = T add(x, y)
  h = T custom-call(m), custom_call_target="mine"
  g = T negate(h)
  ROOT r = (s32[], T, T) tuple(n, g, y)
}
cond {
  s = (s32[], T, T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(i, k), direction=LT
}
ENTRY e {
  p = T parameter(0)
  z = s32[] constant(0)
  j = s32[] copy(z)
  f = T copy(p)
  l2 = T sine(p)
  c = T cosine(p)
  t = (s32[], T, T) tuple(j, f, l2)
  w = (s32[], T, T) while(t), body=body, condition=cond
  v = T get-tuple-element(w), index=1
  ROOT o = (T, T) tuple(v, c)
}""",
        {"l2": 64, "h": 64},
        "l2<h: 0",
    ),
    "a branch writes over a value of the caller's": (
        """yes {
  a = T parameter(0)
  h = T negate(a)
  ROOT g = T sine(h)
}
no {
  a = T parameter(0)
  ROOT m = T negate(a)
}
ENTRY e {
  a = T parameter(0)
  p = pred[] parameter(1)
  t = T tanh(a)
  c = T conditional(p, a, a), true_computation=yes, false_computation=no
  u = T add(t, a)
  ROOT o = (T, T) tuple(c, u)
}""",
        {"t": 0, "h": 0},
        "t<h: 1",
    ),
    "an operand is overwritten while a start reads it": (
        """wrapped {
  a = T parameter(0)
  ROOT g = T all-reduce(a), replica_groups={{0,1}}, to_apply=sum
}
ENTRY e {
  p = T parameter(0)
  t = T negate(p)
  s = ((T), T) async-start(t), calls=wrapped
  u = T abs(p)
  d = T async-done(s)
  n = T negate(p)
  ROOT o = (T, T) tuple(d, n)
}""",
        {"t": 0, "u": 0},
        "t<u: 0",
    ),
    "what a start begins may stand in the bytes of its operand": (
        f"""wrapped {{
  a = T parameter(0)
  v = f32[2] parameter(1)
  i = s32[] parameter(2)
  ROOT g = T fusion(a, v, i), {KLOOP}=update
}}
ENTRY e {{
  p = T parameter(0)
  v = f32[2] parameter(1)
  i = s32[] parameter(2)
  t = T copy(p)
  s = ((T, f32[2], s32[]), T) async-start(t, v, i), calls=wrapped
  n = T abs(p)
  d = T async-done(s)
  ROOT o = (T, T) tuple(d, n)
}}""",
        {},
        "",
    ),
    "of two results one depends on a wrong value, in whose bytes the other is written": (
        f"""ENTRY e {{
  p = T parameter(0)
  t = T negate(p)
  u = T sine(p)
  v = T abs(t)
  f = (T, T) fusion(v, p), {KLOOP}=apart
  a = T get-tuple-element(f), index=0
  b = T get-tuple-element(f), index=1
  ROOT o = (T, T, T) tuple(a, b, u)
}}""",
        {"t": 0, "u": 0, "v": 32, "f{0}": 32, "f{1}": 64},
        "t<u: 1",
    ),
    "of two arrays that are reduced together one is wrong": (
        """ENTRY e {
  p = T parameter(0)
  t = T negate(p)
  u = T tanh(p)
  v = T abs(t)
  r = (T, T) all-reduce(v, p), replica_groups={{0,1}}, to_apply=sum
  a = T get-tuple-element(r), index=0
  b = T get-tuple-element(r), index=1
  ROOT o = (T, T, T) tuple(a, b, u)
}""",
        {"t": 0, "u": 0},
        "t<u: 0",
    ),
    "a donated argument is read after an output was written there": (
        """ENTRY e {
  a = T parameter(0)
  x = T negate(a)
  y = T sine(a)
  ROOT o = (T, T) tuple(x, y)
}""",
        {},
        "a<x: 1",
        ", input_output_alias={ {0}: (0, {}, may-alias) }",
    ),
    "a donated argument is read before": (
        """ENTRY e {
  a = T parameter(0)
  y = T sine(a)
  x = T negate(a)
  ROOT o = (T, T) tuple(x, y)
}""",
        {},
        "",
        ", input_output_alias={ {0}: (0, {}, may-alias) }",
    ),
    "an argument that the caller keeps is updated in place": (
        """ENTRY e {
  p = T parameter(0)
  v = f32[2] parameter(1)
  i = s32[] parameter(2)
  c = T dynamic-update-slice(p, v, i)
  ROOT n = T negate(c)
}""",
        {},
        "p<c:",
    ),
    "a constant is updated in place and read afterwards": (
        """ENTRY e {
  p = f32[2] parameter(0)
  i = s32[] parameter(1)
  k = T constant({1,2,3,4,5,6,7,8})
  c = T dynamic-update-slice(k, p, i)
  ROOT o = T add(c, k)
}""",
        {},
        "k<c: 0",
    ),
    "a result begins in the middle of an operand": (
        """ENTRY e {
  p = T parameter(0)
  t = T negate(p)
  u = T sine(t)
  ROOT o = (T) tuple(u)
}""",
        {"t": 0, "u": 16},
        "t<u: 0",
    ),
    "a wrong value that only decides how often a loop runs": (
        """body {
  s = (s32[], T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = T get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  m = T negate(x)
  ROOT r = (s32[], T) tuple(n, m)
}
cond {
  s = (s32[], T) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(i, k), direction=LT
}
ENTRY e {
  p = T parameter(0)
  q = s32[] parameter(1)
  j = s32[] negate(q)
  a = s32[] abs(q)
  h = s32[] multiply(j, q)
  f = T copy(p)
  t = (s32[], T) tuple(h, f)
  w = (s32[], T) while(t), body=body, condition=cond
  v = T get-tuple-element(w), index=1
  c = T negate(p)
  ROOT o = (T, T, s32[]) tuple(v, c, a)
}""",
        {"j": 0, "a": 0},
        "j<a: 0",
    ),
}
