"""The kernels of Triton's tutorials, rewritten small, with the same memory accesses."""

# pyright: basic
import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(o + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def fused_softmax(o, x, rows, columns, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        raised = tl.exp(values - tl.max(values, axis=0))
        tl.store(o + row * columns + at, raised / tl.sum(raised, axis=0), mask=at < columns)


@triton.jit
def relu_leaky(value):
    return tl.where(value >= 0, value, 0.01 * value)


@triton.jit
def place_tile(tile, across, down, GROUP: tl.constexpr):
    wide = GROUP * across
    group = tile // wide
    first = group * GROUP
    height = min(down - first, GROUP)
    return first + (tile % wide) % height, (tile % wide) // height


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    m, n = place_tile(tl.program_id(0), tl.cdiv(N, BN), tl.cdiv(M, BM), GROUP)
    rows = (m * BM + tl.arange(0, BM)) % M
    columns = (n * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * K + inner[None, :]
    right = b + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(left, mask=inner[None, :] < K - k * BK, other=0.0)
        y = tl.load(right, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(x, y, total)
        left += BK
        right += BK * N
    total = relu_leaky(total)
    rows = m * BM + tl.arange(0, BM)
    columns = n * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def dropout(x, keep, o, n, p, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    kept = tl.load(keep + at, mask=at < n)
    tl.store(o + at, tl.where(kept != 0, values / (1 - p), 0.0), mask=at < n)


@triton.jit
def seeded_dropout(x, o, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    tl.store(o + at, tl.where(tl.rand(seed, at) > p, values / (1 - p), 0.0), mask=at < n)


@triton.jit
def layer_norm(x, o, w, b, mean, rstd, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    middle = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
        value = tl.where(at < columns, value - middle, 0.0)
        squares += value * value
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean + row, middle)
    tl.store(rstd + row, scale)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        value = (tl.load(x + row * columns + at, mask=inside) - middle) * scale
        tl.store(
            o + row * columns + at, value * tl.load(w + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside
        )


@triton.jit
def layer_norm_input_gradient(
    dx, dy, dw, db, x, w, mean, rstd, locks, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=0.0)
    gradient = tl.load(dy + row * columns + at, mask=inside, other=0.0)
    normal = tl.where(inside, (value - tl.load(mean + row)) * tl.load(rstd + row), 0.0)
    weighted = tl.where(inside, tl.load(w + at, mask=inside) * gradient, 0.0)
    one = tl.sum(normal * weighted, axis=0) / columns
    two = tl.sum(weighted, axis=0) / columns
    tl.store(dx + row * columns + at, (weighted - (normal * one + two)) * tl.load(rstd + row), mask=inside)
    group = row % GROUPS
    lock = locks + group
    count = lock + GROUPS
    part_w = dw + group * columns + at
    part_b = db + group * columns + at
    own_w = gradient * normal
    own_b = gradient
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    if seen == 0:
        tl.atomic_xchg(count, 1)
    else:
        own_w += tl.load(part_w, mask=inside)
        own_b += tl.load(part_b, mask=inside)
    tl.store(part_w, own_w, mask=inside)
    tl.store(part_b, own_b, mask=inside)
    tl.atomic_xchg(lock, 0)


@triton.jit
def layer_norm_weight_gradient(dw, db, out_w, out_b, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BN + tl.arange(0, BN)
    w = tl.zeros((BM, BN), dtype=tl.float32)
    b = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, rows, BM):
        row = start + tl.arange(0, BM)
        inside = (row[:, None] < rows) & (at[None, :] < columns)
        place = row[:, None] * columns + at[None, :]
        w += tl.load(dw + place, mask=inside, other=0.0)
        b += tl.load(db + place, mask=inside, other=0.0)
    tl.store(out_w + at, tl.sum(w, axis=0), mask=at < columns)
    tl.store(out_b + at, tl.sum(b, axis=0), mask=at < columns)


@triton.jit
def attention(
    q, k, v, o, sums, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    tile, head = tl.program_id(0), tl.program_id(1)
    base = head * length * D
    rows = tile * BM + tl.arange(0, BM)
    deep = tl.arange(0, D)
    query = tl.load(q + base + rows[:, None] * D + deep[None, :])
    best = tl.full((BM,), -float("inf"), tl.float32)
    mass = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    stop = (tile + 1) * BM if CAUSAL else length
    for start in range(0, stop, BN):
        columns = start + tl.arange(0, BN)
        key = tl.load(k + base + columns[None, :] * D + deep[:, None])
        score = tl.dot(query, key) * scale
        if CAUSAL:
            score = tl.where(rows[:, None] >= columns[None, :], score, -1.0e6)
        new = tl.maximum(best, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        shrink = tl.exp(best - new)
        mass = mass * shrink + tl.sum(p, 1)
        value = tl.load(v + base + columns[:, None] * D + deep[None, :])
        total = total * shrink[:, None] + tl.dot(p, value)
        best = new
    tl.store(sums + head * length + rows, best + tl.log(mass))
    tl.store(o + base + rows[:, None] * D + deep[None, :], total / mass[:, None])


@triton.jit
def attention_by_descriptor(q, k, v, o, heads, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    tile, head = tl.program_id(0), tl.program_id(1)
    all_rows = heads * length
    dq = tl.make_tensor_descriptor(q, [all_rows, D], [D, 1], [BM, D])
    dk = tl.make_tensor_descriptor(k, [all_rows, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v, [all_rows, D], [D, 1], [BN, D])
    do = tl.make_tensor_descriptor(o, [all_rows, D], [D, 1], [BM, D])
    base = head * length
    query = dq.load([base + tile * BM, 0])
    mass = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        p = tl.exp(tl.dot(query, tl.trans(dk.load([base + start, 0]))) * scale)
        mass += tl.sum(p, 1)
        total += tl.dot(p, dv.load([base + start, 0]))
    do.store([base + tile * BM, 0], total / mass[:, None])


@triton.jit
def attention_prepare(o, do, delta, length, D: tl.constexpr, BM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    at = head * length * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(delta + head * length + rows, tl.sum(tl.load(o + at) * tl.load(do + at), axis=1))


@triton.jit
def attention_key_gradient(q, k, v, do, sums, delta, dk, dv, length, scale, D: tl.constexpr, B: tl.constexpr):
    head = tl.program_id(1)
    base = head * length * D
    columns = tl.program_id(0) * B + tl.arange(0, B)
    deep = tl.arange(0, D)
    place = base + columns[:, None] * D + deep[None, :]
    key, value = tl.load(k + place), tl.load(v + place)
    key_gradient = tl.zeros((B, D), tl.float32)
    value_gradient = tl.zeros((B, D), tl.float32)
    for start in range(0, length, B):
        rows = start + tl.arange(0, B)
        query = tl.load(q + base + rows[:, None] * D + deep[None, :])
        outer = tl.load(do + base + rows[:, None] * D + deep[None, :])
        p = tl.exp(tl.dot(key, tl.trans(query)) * scale - tl.load(sums + head * length + rows)[None, :])
        value_gradient += tl.dot(p, outer)
        ds = p * (tl.dot(value, tl.trans(outer)) - tl.load(delta + head * length + rows)[None, :])
        key_gradient += tl.dot(ds, query)
    tl.store(dk + place, key_gradient * scale)
    tl.store(dv + place, value_gradient)


@triton.jit
def attention_query_gradient(q, k, v, do, sums, delta, dq, length, scale, D: tl.constexpr, B: tl.constexpr):
    head = tl.program_id(1)
    base = head * length * D
    rows = tl.program_id(0) * B + tl.arange(0, B)
    deep = tl.arange(0, D)
    place = base + rows[:, None] * D + deep[None, :]
    query, outer = tl.load(q + place), tl.load(do + place)
    sum_, delta_ = tl.load(sums + head * length + rows), tl.load(delta + head * length + rows)
    gradient = tl.zeros((B, D), tl.float32)
    left = k + base + tl.arange(0, B)[None, :] * D + deep[:, None]
    right = v + base + tl.arange(0, B)[None, :] * D + deep[:, None]
    for _ in range(0, length, B):
        key = tl.load(left)
        p = tl.exp(tl.dot(query, key) * scale - sum_[:, None])
        ds = p * (tl.dot(outer, tl.load(right)) - delta_[:, None])
        gradient += tl.dot(ds, tl.trans(key))
        left += B * D
        right += B * D
    tl.store(dq + place, gradient * scale)


@triton.jit
def arcsine(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.extra.cuda.libdevice.asin(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def grouped_gemm(a_table, b_table, c_table, sizes, groups, PROGRAMS: tl.constexpr, B: tl.constexpr):
    tile = tl.program_id(0)
    end = 0
    for group in range(groups):
        M = tl.load(sizes + group * 3)
        N = tl.load(sizes + group * 3 + 1)
        K = tl.load(sizes + group * 3 + 2)
        across = tl.cdiv(N, B)
        tiles = tl.cdiv(M, B) * across
        while tile >= end and tile < end + tiles:
            a = tl.load(a_table + group).to(tl.pointer_type(tl.float32))
            b = tl.load(b_table + group).to(tl.pointer_type(tl.float32))
            c = tl.load(c_table + group).to(tl.pointer_type(tl.float32))
            rows = (tile - end) // across * B + tl.arange(0, B)
            columns = (tile - end) % across * B + tl.arange(0, B)
            inner = tl.arange(0, B)
            total = tl.zeros((B, B), tl.float32)
            for k in range(0, K, B):
                x = tl.load(a + rows[:, None] * K + k + inner[None, :])
                total += tl.dot(x, tl.load(b + (k + inner[:, None]) * N + columns[None, :]))
            tl.store(c + rows[:, None] * N + columns[None, :], total)
            tile += PROGRAMS
        end += tiles


@triton.jit
def grouped_gemm_packed(a, b, c, starts, groups, N, K, B: tl.constexpr):
    tile = tl.program_id(0)
    rows = tile * B + tl.arange(0, B)
    group = 0
    for g in range(groups):
        group = tl.where(tl.load(starts + g) <= tile * B, g, group)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        inner = k + tl.arange(0, B)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        total += tl.dot(x, tl.load(b + group * K * N + inner[:, None] * N + columns[None, :]))
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def persistent_matmul(a, b, c, M, N, K, PROGRAMS: tl.constexpr, B: tl.constexpr, GROUP: tl.constexpr):
    down, across, deep = tl.cdiv(M, B), tl.cdiv(N, B), tl.cdiv(K, B)
    for tile in tl.range(tl.program_id(0), down * across, PROGRAMS, flatten=True):
        m, n = place_tile(tile, across, down, GROUP)
        rows = m * B + tl.arange(0, B)
        columns = n * B + tl.arange(0, B)
        safe_rows = tl.where(rows < M, rows, 0)
        safe_columns = tl.where(columns < N, columns, 0)
        total = tl.zeros((B, B), tl.float32)
        for k in range(deep):
            inner = k * B + tl.arange(0, B)
            x = tl.load(a + safe_rows[:, None] * K + inner[None, :], mask=inner[None, :] < K, other=0.0)
            y = tl.load(b + inner[:, None] * N + safe_columns[None, :], mask=inner[:, None] < K, other=0.0)
            total = tl.dot(x, y, total)
        tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def persistent_descriptor_matmul(a, b, c, M, N, K, PROGRAMS: tl.constexpr, B: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [B, B])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [B, B])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [B, B])
    across = tl.cdiv(N, B)
    for tile in range(tl.program_id(0), tl.cdiv(M, B) * across, PROGRAMS):
        m, n = tile // across * B, tile % across * B
        total = tl.zeros((B, B), tl.float32)
        for k in range(0, K, B):
            total = tl.dot(da.load([m, k]), db.load([n, k]).T, total)
        dc.store([m, n], total)


@triton.jit
def block_scaled_matmul(a, a_scale, b, b_scale, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        scales = k // 32 + tl.arange(0, BK // 32)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        y = tl.load(b + inner[:, None] * N + columns[None, :])
        sx = tl.load(a_scale + rows[:, None] * (K // 32) + scales[None, :])
        sy = tl.load(b_scale + columns[:, None] * (K // 32) + scales[None, :])
        total = tl.dot_scaled(x, sx, "e4m3", y, sy, "e4m3", total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)
