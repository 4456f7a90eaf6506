"""Kernels with results derived by hand, for operations that Triton's own interpreter lacks or computes unlike a GPU."""

# pyright: basic
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.hip import libdevice as ocml


@triton.jit
def narrow_arithmetic(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, a + b)
    tl.store(o + N + i, a * b)
    tl.store(o + 2 * N + i, a - b)


@triton.jit
def cast(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty))


@triton.jit
def cast_towards_zero(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty, fp_downcast_rounding="rtz"))


@triton.jit
def fused(x, y, z, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.fma(tl.load(x + i), tl.load(y + i), tl.load(z + i)))


@triton.jit
def not_a_number(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, tl.clamp(a, -1.0, 1.0))
    tl.store(o + N + i, tl.clamp(a, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(o + 2 * N + i, tl.maximum(a, 0.0))
    tl.store(o + 3 * N + i, tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(o + 4 * N, tl.max(a))


@triton.jit
def device_library(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, libdevice.tanh(a))
    tl.store(o + N + i, libdevice.pow(tl.abs(a), a))
    tl.store(o + 2 * N + i, libdevice.atan2(a, a + 1))
    tl.store(o + 3 * N + i, libdevice.log1p(tl.abs(a)))
    tl.store(o + 4 * N + i, libdevice.rint(a * 3))
    tl.store(o + 5 * N + i, libdevice.isnan(a).to(tl.float32))
    tl.store(o + 6 * N + i, libdevice.abs(a))


@triton.jit
def amd_library(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, ocml.tanh(a))
    tl.store(o + N + i, ocml.pow(tl.abs(a), a))
    tl.store(o + 2 * N + i, ocml.log1p(tl.abs(a)))
    tl.store(o + 3 * N + i, ocml.pow(a, tl.full((N,), 3, tl.int32)))
    tl.store(o + 4 * N + i, ocml.isnan(a).to(tl.float32))
    tl.store(o + 5 * N + i, ocml.fast_tanhf(a))
    tl.store(o + 6 * N + i, ocml.j0(a))


@triton.jit
def unknown_amd_function(x, o):
    tl.store(o, ocml.ilogb(tl.load(x)))


@triton.jit
def unknown_function(x, o):
    a = tl.load(x)
    tl.store(o, libdevice.byte_perm(a, a, a))


@triton.jit
def product(x, y, o, M: tl.constexpr, PRECISION: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
    a, b = tl.load(x + i * M + j), tl.load(y + i * M + j)
    tl.store(o + i * M + j, tl.dot(a, b, input_precision=PRECISION))


@triton.jit
def scaled_product(
    x,
    sx,
    y,
    sy,
    o,
    FX: tl.constexpr,
    FY: tl.constexpr,
    M: tl.constexpr,
    K: tl.constexpr,
    X: tl.constexpr,
    Y: tl.constexpr,
):
    """X and Y: elements in a byte along the inner axis."""
    i, s = tl.arange(0, M), tl.arange(0, K // 32)
    a = tl.load(x + i[:, None] * (K // X) + tl.arange(0, K // X)[None, :])
    b = tl.load(y + tl.arange(0, K // Y)[:, None] * M + i[None, :])
    p, q = tl.load(sx + i[:, None] * (K // 32) + s[None, :]), tl.load(sy + i[:, None] * (K // 32) + s[None, :])
    at = i[:, None] * M + i[None, :]
    tl.store(o + at, tl.dot_scaled(a, p, FX, b, q, FY, tl.full((M, M), 1.0, tl.float32)))
    tl.store(o + M * M + at, tl.dot_scaled(a, None, FX, b, q, FY))
    tl.store(o + 2 * M * M + at, tl.dot_scaled(a, p, FX, b, None, FY))


@triton.jit
def product_of_packed_rows(x, y, o, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    half = tl.arange(0, M // 2)
    a, b = tl.load(x + half[:, None] * K + k[None, :]), tl.load(y + k[:, None] * (M // 2) + half[None, :])
    found = tl.dot_scaled(a, None, "e2m1", b, None, "e2m1", lhs_k_pack=False, rhs_k_pack=False)
    tl.store(o + i[:, None] * M + i[None, :], found)


@triton.jit
def narrow_reductions(x, o, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    tl.store(o, tl.sum(a))
    tl.store(o + 1, tl.max(a))
    tl.store(o + 2, tl.min(a))


@triton.jit
def gathered_rows(x, rows, o, m, n, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_tensor_descriptor(x, (m, n), (n, 1), (1, N))
    b = tl.make_tensor_descriptor(o, (m, n), (n, 1), (1, N))
    index = tl.load(rows + tl.arange(0, M))
    b.scatter(a.gather(index, 0) + 1, tl.arange(0, M), 0)


@triton.jit
def added_blocks(x, o, m, n, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_tensor_descriptor(x, (m, n), (n, 1), (M, N), padding_option="nan")
    b = tl.make_tensor_descriptor(o, (m, n), (n, 1), (M, N))
    b.atomic_add((0, 0), a.load((tl.program_id(0), 0)))


@triton.jit
def narrow_padding(x, o, n, N: tl.constexpr):
    a = tl.make_block_ptr(x, (n,), (1,), (0,), (N,), (0,))
    tl.store(o + tl.arange(0, N), tl.load(a, boundary_check=(0,), padding_option="nan"))


@triton.jit
def locked(x, lock, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(o + i, tl.load(o + i) * 2 + a)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def stuck(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@triton.jit
def neighbour(x, o, ROWS: tl.constexpr, N: tl.constexpr):
    """Adds to each row the next one."""
    row = tl.program_id(0)
    i = tl.arange(0, N)
    below = tl.load(x + (row + 1) % ROWS * N + i)
    tl.store(o + row * N + i, tl.load(x + row * N + i) + below)


@triton.jit
def columns(x, N: tl.constexpr, M: tl.constexpr):
    """One column for each program: between each other's bytes, not in them."""
    place = x + tl.program_id(0) + tl.arange(0, N) * M
    tl.store(place, tl.load(place) * 2)


@triton.jit
def everybody(o):
    tl.store(o, tl.program_id(0))


@triton.jit
def past_the_end(x, o, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, a, mask=i < n)


@triton.jit
def before_the_start(o, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N) - 3
    tl.store(o + i, i)


@triton.jit
def speaking(x, N: tl.constexpr):
    a = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    tl.device_print("a", a)


@triton.jit
def inline_assembly(x, o):
    a = tl.load(x)
    tl.store(o, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [a], tl.int32, True, 1))


@triton.jit
def endless(x):
    n = tl.load(x)
    while n >= 0:
        n += 0
    tl.store(x, n)


@triton.jit
def unsigned_loop(o, first, last):
    total = 0
    for _ in range(first, last, 1):
        total += 1
    tl.store(o, total)


@triton.jit
def captured(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.associative_scan(tl.load(x + i), 0, less))


@triton.jit
def less(a, b):
    return a * 2 - b


@triton.jit
def unaligned(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    shifted = (x.to(tl.pointer_type(tl.int8)) + 1).to(tl.pointer_type(tl.int32))
    tl.store(o + i, tl.load(shifted + i))
    tl.store(o + N + i, tl.load(shifted + i * i, mask=i < 3, other=-1))


@triton.jit
def through_integer(x, o):
    address = x.to(tl.int64) + 8
    tl.store(o, tl.load(address.to(tl.pointer_type(tl.int32))))


@triton.jit
def one_for_all(x, o, n, N: tl.constexpr):
    """One address for all lanes, under masks that let all, some, and the first lane through."""
    i = tl.arange(0, N)
    place = x + tl.program_id(0) + tl.zeros((N,), tl.int32)
    o += tl.program_id(0) * 3 * N
    tl.store(o + i, tl.load(place, mask=i < n * N, other=0.5))
    tl.store(o + N + i, tl.load(place, mask=i < n + 1, other=0.5))
    tl.store(o + 2 * N + i, tl.load(place, mask=i < n, other=0.5))
