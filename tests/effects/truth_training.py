"""Kernels of training libraries, unchanged or nearly so."""

# pyright: basic
import triton
import triton.language as tl


@triton.jit
def cross_entropy_in_place(x, target, loss, columns, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * columns
    label = tl.load(target + row)
    if label == ignored:
        for start in range(0, columns, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(x + at, 0.0, mask=at < columns)
        tl.store(loss + row, 0.0)
        return
    best = float("-inf")
    mass = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + at, mask=at < columns, other=float("-inf"))
        new = tl.maximum(best, tl.max(values))
        mass = mass * tl.exp(best - new) + tl.sum(tl.exp(values - new))
        best = new
    logit = tl.load(x + label)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + at, mask=at < columns, other=float("-inf"))
        p = tl.exp(values - best) / mass
        tl.store(x + at, tl.where(at == label, p - 1.0, p), mask=at < columns)
    tl.store(loss + row, best + tl.log(mass) - logit)


@triton.jit
def cross_entropy_forgets_ignored(x, target, loss, columns, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(target + row)
    if label == ignored:
        return
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=float("-inf"))
    tl.store(loss + row, tl.log(tl.sum(tl.exp(values))))


@triton.jit
def rms_norm(x, o, w, rstd, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(values * values) / columns + eps)
    tl.store(rstd + row, scale)
    tl.store(o + row * columns + at, values * scale * tl.load(w + at, mask=inside), mask=inside)


@triton.jit
def rms_norm_gradient_in_place(dy, x, w, rstd, dw, rows, columns, EACH: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    total = tl.zeros((BLOCK,), tl.float32)
    first = program * EACH
    for row in range(first, min(first + EACH, rows)):
        gradient = tl.load(dy + row * columns + at, mask=inside, other=0.0)
        values = tl.load(x + row * columns + at, mask=inside, other=0.0)
        scale = tl.load(rstd + row)
        total += gradient * values * scale
        weighted = gradient * tl.load(w + at, mask=inside, other=0.0)
        mean = tl.sum(weighted * values) / columns
        tl.store(dy + row * columns + at, scale * (weighted - values * mean * scale * scale), mask=inside)
    tl.store(dw + program * columns + at, total, mask=inside)


@triton.jit
def swiglu(a, b, o, columns, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    left = tl.load(a + place + at, mask=at < columns)
    tl.store(o + place + at, left * tl.sigmoid(left) * tl.load(b + place + at, mask=at < columns), mask=at < columns)


@triton.jit
def swiglu_gradient_in_place(dc, a, b, columns, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * columns
    dc += place
    a += place
    b += place
    at = tl.arange(0, BLOCK)
    gradient = tl.load(dc + at, mask=at < columns)
    left = tl.load(a + at, mask=at < columns)
    right = tl.load(b + at, mask=at < columns)
    s = tl.sigmoid(left)
    tl.store(a + at, gradient * right * s * (1 + left * (1 - s)), mask=at < columns)
    tl.store(b + at, gradient * left * s, mask=at < columns)


@triton.jit
def rope_in_place(q, cos, sin, heads, D: tl.constexpr):
    token = tl.program_id(0)
    half = tl.arange(0, D // 2)
    c, s = tl.load(cos + token * (D // 2) + half), tl.load(sin + token * (D // 2) + half)
    head = tl.arange(0, 4)
    first = q + token * heads * D + head[:, None] * D + half[None, :]
    inside = head[:, None] < heads
    left = tl.load(first, mask=inside)
    right = tl.load(first + D // 2, mask=inside)
    tl.store(first, left * c[None, :] - right * s[None, :], mask=inside)
    tl.store(first + D // 2, right * c[None, :] + left * s[None, :], mask=inside)


@triton.jit
def embedding(w, tokens, o, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(w + tl.load(tokens + row) * columns + at, mask=at < columns)
    tl.store(o + row * columns + at, values, mask=at < columns)


@triton.jit
def embedding_gradient(dw, tokens, dy, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(dy + row * columns + at, mask=at < columns)
    tl.atomic_add(dw + tl.load(tokens + row) * columns + at, values, mask=at < columns)


@triton.jit
def split_k_matmul(a, b, c, M, N, K, B: tl.constexpr, SPLITS: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(tl.program_id(2) * B, K, B * SPLITS):
        inner = k + tl.arange(0, B)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        total += tl.dot(x, tl.load(b + inner[:, None] * N + columns[None, :]))
    tl.atomic_add(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def convolution(x, w, o, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(TAPS):
        total += tl.load(w + tap) * tl.load(x + at + tap, mask=at < n)
    tl.store(o + at, total, mask=at < n)


@triton.jit
def quantise(x, o, scales, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    scale = tl.max(tl.abs(values)) / 127
    tl.store(scales + row, scale)
    tl.store(o + row * columns + at, (values / (scale + 1e-6)).to(tl.int8), mask=at < columns)


@triton.jit
def updates_weights(w, m, gradient, n, rate, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    moment = 0.9 * tl.load(m + at, mask=inside) + 0.1 * tl.load(gradient + at, mask=inside)
    tl.store(m + at, moment, mask=inside)
    tl.store(w + at, tl.load(w + at, mask=inside) - rate * moment, mask=inside)
