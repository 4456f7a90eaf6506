"""Small kernels, each for one family of operations; pointers are called x, y, z, results o, p.

`flow_kernels` has those for memory and control flow.
"""

# ruff: noqa: F401
# pyright: basic
import triton
import triton.language as tl

from tests.replay.triton_ir.flow_kernels import (
    atomics,
    block_pointers,
    branches,
    calls,
    chosen_pointer,
    descriptors,
    early_return,
    float_atomics,
    grids,
    indirect,
    last_program,
    layer_norm,
    nan_padding,
    overlapping,
    ragged_loops,
    random_numbers,
    scalars,
    square_sum,
    strided,
    swapped,
    truths,
    while_loops,
)


@triton.jit
def integers(x, y, o, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    n = tl.num_programs(0) * N
    tl.store(o + i, a + b)
    tl.store(o + n + i, a - b)
    tl.store(o + 2 * n + i, a * b)
    tl.store(o + 3 * n + i, a & b)
    tl.store(o + 4 * n + i, a | b)
    tl.store(o + 5 * n + i, a ^ b)
    tl.store(o + 6 * n + i, tl.minimum(a, b))
    tl.store(o + 7 * n + i, tl.maximum(a, b))
    tl.store(o + 8 * n + i, tl.where(a < b, a, b))
    tl.store(o + 9 * n + i, (a == b).to(a.dtype) + (a >= b).to(a.dtype) * 2)


@triton.jit
def negations(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, ~a)
    tl.store(o + N + i, -a)


@triton.jit
def divisions(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, a // b)
    tl.store(o + N + i, a % b)
    tl.store(o + 2 * N + i, tl.cdiv(a, b))


@triton.jit
def shifts(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, a << b)
    tl.store(o + N + i, a >> b)


@triton.jit
def high_product(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.umulhi(tl.load(x + i), tl.load(y + i)))


@triton.jit
def floats(x, y, o, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    n = tl.num_programs(0) * N
    tl.store(o + i, a + b)
    tl.store(o + n + i, a - b)
    tl.store(o + 2 * n + i, a * b)
    tl.store(o + 3 * n + i, a / b)
    tl.store(o + 4 * n + i, tl.where(a > b, a, -b))
    tl.store(o + 5 * n + i, tl.where((a != b) & (a <= 1.0), tl.abs(a), b * 2.5))
    tl.store(o + 6 * n + i, tl.where((a == b) | (a >= b), 1.0, 0.0))
    tl.store(o + 7 * n + i, a % b)


@triton.jit
def clamps(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, tl.clamp(a, -0.5, 0.75))
    tl.store(o + N + i, tl.maximum(tl.minimum(a, 0.5), -0.25))


@triton.jit
def functions(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.abs(a) + 0.001
    tl.store(o + i, tl.exp(a))
    tl.store(o + N + i, tl.exp2(a))
    tl.store(o + 2 * N + i, tl.log(b))
    tl.store(o + 3 * N + i, tl.log2(b))
    tl.store(o + 4 * N + i, tl.sin(a))
    tl.store(o + 5 * N + i, tl.cos(a))
    tl.store(o + 6 * N + i, tl.sqrt(b))
    tl.store(o + 7 * N + i, tl.rsqrt(b))
    tl.store(o + 8 * N + i, tl.floor(a))
    tl.store(o + 9 * N + i, tl.ceil(a))
    tl.store(o + 10 * N + i, tl.sqrt_rn(b))
    tl.store(o + 11 * N + i, tl.div_rn(a, b))
    tl.store(o + 12 * N + i, tl.sigmoid(a))
    tl.store(o + 13 * N + i, tl.softmax(a))


@triton.jit
def error_function(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.erf(tl.load(x + i)))


@triton.jit
def fused(x, y, z, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.fma(tl.load(x + i), tl.load(y + i), tl.load(z + i)))


@triton.jit
def casts(x, o, p, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, a.to(o.dtype.element_ty))
    tl.store(p + i, a.to(p.dtype.element_ty))


@triton.jit
def bits(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty, bitcast=True))


@triton.jit
def reductions(x, o, p, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    i, j = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + pid * M * N + i[:, None] * N + j[None, :])
    o += pid * 8 * (M + N)
    tl.store(o + i, tl.sum(a, 1))
    tl.store(o + M + j, tl.sum(a, 0))
    tl.store(o + M + N + i, tl.max(a, 1))
    tl.store(o + 2 * M + N + j, tl.max(a, 0))
    tl.store(o + 2 * M + 2 * N + i, tl.min(a, 1))
    tl.store(o + 3 * M + 2 * N, tl.sum(a))
    tl.store(o + 3 * M + 2 * N + 1, tl.max(a))
    p += pid * 4 * (M + N)
    tl.store(p + i, tl.argmax(a, 1))
    tl.store(p + M + j, tl.argmin(a, 0))
    value, index = tl.max(a, 1, return_indices=True)
    tl.store(p + M + N + i, index)
    tl.store(o + 4 * M + 2 * N + i, value)


@triton.jit
def xor_sums(x, o, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(o + i, tl.xor_sum(a, 1))
    tl.store(o + M + i, tl.sum(a, 1))
    tl.store(o + 2 * M + i, tl.max(a, 1))
    tl.store(o + 3 * M + i, tl.min(a, 1))


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def either(a, b, c, d):
    return tl.where(a > c, a, c), tl.where(a > c, b, d + 1)


@triton.jit
def own_reductions(x, o, p, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(o + i, tl.reduce(a, 1, multiply))
    index = tl.broadcast_to(j[None, :], (M, N))
    value, _ = tl.reduce((a, index), 1, either)
    tl.store(p + i, value)


@triton.jit
def scans(x, o, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    i, j = tl.arange(0, M), tl.arange(0, N)
    place = pid * M * N + i[:, None] * N + j[None, :]
    a = tl.load(x + place)
    n = tl.num_programs(0) * M * N
    tl.store(o + place, tl.cumsum(a, 1))
    tl.store(o + n + place, tl.cumsum(a, 0))
    tl.store(o + 2 * n + place, tl.cumprod(a, 1))
    tl.store(o + 3 * n + place, tl.cumsum(a, 1, reverse=True))
    tl.store(o + 4 * n + place, tl.associative_scan(a, 0, multiply))


@triton.jit
def shapes(x, o, M: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    i, j = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + pid * M * N + i[:, None] * N + j[None, :])
    o += pid * 6 * M * N
    k = tl.arange(0, M * N)
    tl.store(o + j[:, None] * M + i[None, :], tl.trans(a))
    tl.store(o + M * N + k, tl.reshape(a, (M * N,)))
    b = tl.reshape(a, (M, N // 2, 2))
    low, high = tl.split(b)
    h = tl.arange(0, N // 2)
    tl.store(o + 2 * M * N + i[:, None] * (N // 2) + h[None, :], low - high)
    c = tl.join(low, high + 1)
    tl.store(o + 3 * M * N + k, tl.reshape(c, (M * N,)))
    d = tl.permute(b, (2, 0, 1))
    tl.store(o + 4 * M * N + k, tl.ravel(d))
    tl.store(o + 5 * M * N + k, tl.ravel(tl.interleave(low, high)))


@triton.jit
def catenated(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + tl.arange(0, 2 * N), tl.cat(a, a + 1, can_reorder=True))


@triton.jit
def flips(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, tl.flip(a, 0))
    tl.store(o + N + i, tl.sort(a))


@triton.jit
def gathers(x, y, o, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    place = i[:, None] * N + j[None, :]
    tl.store(o + place, tl.gather(tl.load(x + place), tl.load(y + place), axis=1))


@triton.jit
def histograms(x, o, N: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    a = tl.load(x + pid * N + tl.arange(0, N))
    tl.store(o + pid * B + tl.arange(0, B), tl.histogram(a, B))


@triton.jit
def products(x, y, o, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    i, k, j = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(x + pid * M * K + i[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + j[None, :])
    tl.store(o + pid * M * N + i[:, None] * N + j[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def tiles(x, y, o, m, n, k, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        inner = start * K + tl.arange(0, K)
        a = tl.load(x + row[:, None] * k + inner[None, :], mask=(row[:, None] < m) & (inner[None, :] < k), other=0.0)
        b = tl.load(
            y + inner[:, None] * n + column[None, :], mask=(inner[:, None] < k) & (column[None, :] < n), other=0.0
        )
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(o + row[:, None] * n + column[None, :], total, mask=(row[:, None] < m) & (column[None, :] < n))
