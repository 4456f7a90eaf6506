"""Small Triton kernels, one for each way to read or write; the pointers are called x, y, o."""

# ruff: noqa: SIM108
# pyright: basic
import triton
import triton.language as tl


@triton.jit
def plain_read(x, o, n):
    i = tl.arange(0, 16)
    tl.store(o + i, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def in_place(x, n):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.load(x + i) * 2)


@triton.jit
def unused_argument(x, y, o):
    tl.store(o, tl.load(x))


@triton.jit
def store_of_a_pointer_argument(x, o):
    tl.store(o, x.to(tl.int64))


@triton.jit
def masked_store(x, n):
    i = tl.arange(0, 16)
    tl.store(x + i, 0.0, mask=i < n)


@triton.jit
def store_in_for(x, o, n):
    total = 0.0
    for k in range(0, n, 16):
        i = k + tl.arange(0, 16)
        tl.store(x + i, 1.0, mask=i < n)
        total += k
    tl.store(o, total)


@triton.jit
def store_in_if(x, y, n):
    if n > 3:
        tl.store(x, 1.0)
    else:
        tl.store(y, tl.load(y) + 1.0)


@triton.jit
def store_in_while(x, y, n):
    k = 0
    while k < n:
        tl.store(x + k, tl.load(y + k))
        k += 1


@triton.jit
def carried_through_for(x, y, n):
    for _ in range(n):
        tl.store(x, tl.load(y))
        x += 16
        y += 16


@triton.jit
def swapped_in_for(x, y, n):
    for _ in range(n):
        tl.store(x, 1.0)
        t = x
        x = y
        y = t


@triton.jit
def carried_through_while(x, y, n):
    k = 0
    while k < n:
        tl.store(x, tl.load(y))
        x += 1
        y += 1
        k += 1
    tl.store(x, 0.0)


@triton.jit
def chosen_by_where(x, y, o, n):
    p = tl.where(n > 2, x, y)
    tl.store(p, tl.load(o))


@triton.jit
def chosen_by_if(x, y, o, n):
    if n > 2:
        p = x
    else:
        p = y
    tl.store(p, tl.load(o))


@triton.jit
def early_return(x, y, o, n):
    if n > 2:
        tl.store(x, 1.0)
        return
    y += n
    if n > 1:
        y += 1
        return
    tl.store(o, tl.load(y))


@triton.jit
def branches_carry_pointers(x, y, o, n):
    if n > 2:
        x += 1
        y += 1
        if n > 7:
            return
    else:
        x += 2
        y += 2
    tl.store(x, tl.load(y))
    tl.store(o, 1.0)


@triton.jit
def atomic_add(x, o):
    tl.atomic_add(x, 1.0)
    tl.store(o, 1.0)


@triton.jit
def atomic_cas(x, o):
    tl.store(o, tl.atomic_cas(x, 0, 1))


@triton.jit
def block_pointers(x, o, n, WRITE: tl.constexpr):
    p = tl.make_block_ptr(x, (n, 16), (16, 1), (0, 0), (16, 16), (1, 0))
    q = tl.make_block_ptr(o, (n, 16), (16, 1), (0, 0), (16, 16), (1, 0))
    for _ in range(0, n, 16):
        v = tl.load(p)
        tl.store(q, v)
        if WRITE:
            tl.store(p, v)
        p = tl.advance(p, (16, 0))
        q = tl.advance(q, (16, 0))


@triton.jit
def tensor_descriptors(x, y, o, n):
    a = tl.make_tensor_descriptor(x, [n, 16], [16, 1], [16, 16])
    b = tl.make_tensor_descriptor(y, [n, 16], [16, 1], [16, 16])
    c = tl.make_tensor_descriptor(o, [n, 16], [16, 1], [16, 16])
    v = a.load([0, 0])
    b.store([0, 0], v)
    c.atomic_add([0, 0], v)


@triton.jit(noinline=True)
def store_one(p, n):
    tl.store(p + n, 1.0)


@triton.jit
def advance(p, n):
    return p + n


@triton.jit
def stores_through_call(x, y, n):
    store_one(x, n)
    tl.load(y)


@triton.jit
def same_callee_reads_and_writes(x, y, n):
    tl.store(advance(x, n), tl.load(advance(y, n)))


@triton.jit
def address_from_integer(x, a):
    tl.store(a.to(tl.pointer_type(tl.float32)), tl.load(x))


@triton.jit
def read_from_integer(x, o, a):
    tl.store(o, tl.load(a.to(tl.pointer_type(tl.float32))))


@triton.jit
def round_trip_through_integer(x, o):
    a = x.to(tl.int64) + 4
    tl.store(a.to(tl.pointer_type(tl.float32)), 1.0)
    tl.store(o, 1.0)


@triton.jit
def loaded_pointer(x, o):
    p = tl.load(x).to(tl.pointer_type(tl.float32))
    tl.store(p, 1.0)
    tl.store(o, 1.0)


@triton.jit
def pure_assembly(x, o):
    i = tl.arange(0, 16)
    v = tl.inline_asm_elementwise("shl.b32 $0, $1, 3;", "=r,r", [tl.load(x + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(o + i, v)


@triton.jit
def impure_assembly(x, o):
    i = tl.arange(0, 16)
    v = tl.inline_asm_elementwise("shl.b32 $0, $1, 3;", "=r,r", [tl.load(x + i)], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(o + i, v)


@triton.jit
def fence(x, w, o):
    i = tl.arange(0, 16)
    tl.store(x + i, 3)
    v = tl.inline_asm_elementwise("membar.gl; mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(o + i, v + tl.load(w + i))


@triton.jit
def impure_store(x, w, o):
    i = tl.arange(0, 16)
    v = tl.inline_asm_elementwise(
        "{ .reg .u64 a; mov.u64 a, 0; st.global.b32 [a], $1; mov.b32 $0, $1; }",
        "=r,r",
        [i],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(o + i, v + tl.load(w + i))


@triton.jit
def assembly_that_lies(x, o):
    i = tl.arange(0, 16)
    a = (x + i).to(tl.int64)
    v = tl.inline_asm_elementwise(
        "st.global.b32 [$1], 0; mov.b32 $0, 0;", "=r,l", [a], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(o + i, v)


@triton.jit
def reductions(x, o):
    i = tl.arange(0, 16)
    v = tl.load(x + i)
    tl.store(o, tl.sum(v) + tl.max(tl.cumsum(v, 0)))


@triton.jit
def scalars(x, one, n, o):
    i = tl.arange(0, 64)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, v * one, mask=i < n)
    tl.store(o + i, v)


@triton.jit
def sometimes_in_place(x, o, WRITE: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    if WRITE:
        tl.store(x + i, v * 2)
    tl.store(o + i, v)


@triton.jit
def adds_into(x, o):
    i = tl.arange(0, 64)
    tl.atomic_add(o + i, tl.load(x + i))


@triton.jit
def scalars_between(x, one, y, n, m, o):
    tl.store(y + n, tl.load(x + one) + tl.load(y + m))
    tl.store(o + n, 1.0)


@triton.jit
def plain_read_into(x, n, o):
    i = tl.arange(0, 16)
    tl.store(o + i, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def nothing(x, o):
    pass


@triton.jit
def shapes_of_pointers(x, y, o):
    i = tl.arange(0, 16)
    p = tl.broadcast_to((x + i)[:, None], (16, 16))
    q = tl.reshape(tl.trans((y + i)[None, :]), (4, 4))
    tl.store(p, 1.0)
    tl.store(o + tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :], tl.load(q))


@triton.jit
def swap(pair):
    return pair[1], pair[0]


@triton.jit
def pointers_in_tuples(x, y, o):
    pair = swap((x, y))
    first, second = pair
    tl.store(first, tl.load(second))
    tl.store(o, 1.0)


@triton.jit
def moved_by_an_address(x, y):
    tl.store(y + (x.to(tl.int64) - y.to(tl.int64)) // 4, 1.0)


@triton.jit
def masked_by_an_address(x, y):
    tl.store(y, 1.0, mask=x.to(tl.int64) % 16 == 0)


@triton.jit
def _subtract_addresses(x, y):
    return (x.to(tl.int64) - y.to(tl.int64)) // 4


@triton.jit
def moved_by_a_returned_address(x, y, n):
    at = _subtract_addresses(x, y)
    for _ in range(n):
        at = at * 1 + 0
    tl.store(y + at, 1.0)


@triton.jit
def adds_up_beside(w, g, s):
    i = tl.arange(0, 16)
    tl.store(s, tl.sum(tl.load(g + i)))
    tl.store(w + i, tl.load(w + i) + tl.load(g + i))


@triton.jit
def adds_up_in_a_loop(w, g, s):
    total = 0.0
    for start in range(0, 64, 16):
        i = start + tl.arange(0, 16)
        total += tl.sum(tl.load(g + i))
        tl.store(w + i, tl.load(w + i) + tl.load(g + i))
    tl.store(s, total)


@triton.jit
def adds_up_under(w, g, s):
    i = tl.arange(0, 16)
    total = 0.0
    if tl.load(w) > 0:
        total = tl.sum(tl.load(g + i))
    tl.store(s, total)
    tl.store(w + i, tl.load(w + i) + tl.load(g + i))


@triton.jit
def adds_up_times(w, g, s):
    i = tl.arange(0, 16)
    for _ in range(tl.load(w).to(tl.int32)):
        tl.store(s, tl.sum(tl.load(g + i)))
    tl.store(w + i, tl.load(w + i) + tl.load(g + i))


@triton.jit
def adds_up_at(w, g, s):
    i = tl.arange(0, 16)
    tl.store(s + tl.load(w).to(tl.int32), tl.sum(tl.load(g + i)))
    tl.store(w + i, tl.load(w + i) + tl.load(g + i))


@triton.jit
def adds_up_through(w, g, s):
    i = tl.arange(0, 16)
    tl.store(w + i, tl.load(w + i) + tl.load(g + i))
    tl.store(s, tl.load(w + 3))


@triton.jit
def passes_on_or_fills(x, o, PASSES: tl.constexpr):
    tl.store(o, tl.load(x) if PASSES else 0.0)
