"""Small kernels, one for each way of accessing memory and each form of control flow; parameters as in `op_kernels`."""

# ruff: noqa: SIM108
# pyright: basic
import triton
import triton.language as tl


@triton.jit
def block_pointers(x, o, m, n, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_block_ptr(x, (m, n), (n, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    b = tl.make_block_ptr(o, (m, n), (n, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    for _ in range(tl.cdiv(n, N)):
        tl.store(b, tl.load(a, boundary_check=(0, 1), padding_option="zero") * 2, boundary_check=(0, 1))
        a = tl.advance(a, (0, N))
        b = tl.advance(b, (0, N))


@triton.jit
def nan_padding(x, o, m, n, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_block_ptr(x, (m, n), (n, 1), (0, 0), (M, N), (1, 0))
    i, j = tl.arange(0, M), tl.arange(0, N)
    tl.store(o + i[:, None] * N + j[None, :], tl.load(a, boundary_check=(0, 1), padding_option="nan"))


@triton.jit
def descriptors(x, o, m, n, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_tensor_descriptor(x, (m, n), (n, 1), (M, N))
    b = tl.make_tensor_descriptor(o, (m, n), (n, 1), (M, N))
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    b.store((row, column), a.load((row, column)) + 1)


@triton.jit
def atomics(x, o, p, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(x + pid * N + i)
    tl.store(p + pid * N + i, tl.atomic_add(o + i, a))
    tl.atomic_max(o + N + i, a)
    tl.atomic_min(o + 2 * N + i, a, mask=i < N // 2)
    tl.atomic_and(o + 3 * N + i % 4, a)
    tl.atomic_or(o + 4 * N + i % 4, a)
    tl.atomic_xor(o + 5 * N + i % 4, a)
    tl.atomic_xchg(o + 6 * N + i, a)
    tl.atomic_add(o + 7 * N, pid)


@triton.jit
def float_atomics(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + tl.program_id(0) * N + i)
    tl.atomic_add(o + i % 8, a)
    tl.atomic_add(o + 8, tl.sum(a))


@triton.jit
def last_program(x, count, o, N: tl.constexpr):
    """The last program adds up the results of all programs."""
    pid = tl.program_id(0)
    a = tl.load(x + pid * N + tl.arange(0, N))
    tl.store(o + 1 + pid, tl.sum(a))
    ticket = tl.atomic_add(count, 1)
    if ticket == tl.num_programs(0) - 1:
        total = 0.0
        for k in range(tl.num_programs(0)):
            total += tl.load(o + 1 + k)
        tl.store(o, total)


@triton.jit
def branches(x, o, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(x + pid * N + i)
    total = tl.sum(a)
    if total > 0:
        b = a * 2
        if pid % 2 == 0:
            b += 1
            tl.store(o + pid * N + i, b)
        else:
            tl.store(o + pid * N + i, b - 5)
    elif pid > 2:
        b = a - 1
        tl.store(o + pid * N + i, b)
    else:
        b = a
    tl.store(o + tl.num_programs(0) * N + pid, tl.sum(b))


@triton.jit
def early_return(x, o, n, N: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    i = tl.arange(0, N)
    a = tl.load(x + pid * N + i)
    if tl.max(a) > 1.5:
        tl.store(o + pid * N + i, -a)
        return
    tl.store(o + pid * N + i, a)


@triton.jit
def ragged_loops(x, starts, o, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    first, last = tl.load(starts + pid), tl.load(starts + pid + 1)
    total = tl.zeros((N,), tl.float32)
    rounds = 0
    for start in range(first, last, N):
        total += tl.load(x + start + i, mask=start + i < last, other=0.0)
        rounds += 1
    tl.store(o + pid, tl.sum(total) + rounds)


@triton.jit
def while_loops(x, o, N: tl.constexpr):
    pid = tl.program_id(0)
    n = tl.load(x + pid)
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(o + pid, steps)


@triton.jit
def swapped(x, y, n):
    """Pointers carried through a loop and exchanged."""
    pid = tl.program_id(0)
    x += pid * 8
    y += pid * 8
    for k in range(n):
        tl.store(y + k, tl.load(x + k) + 1)
        t = x
        x = y
        y = t


@triton.jit(noinline=True)
def square_sum(a, b):
    if a > b:
        return a * a + b
    return b * b - a


@triton.jit
def calls(x, o, N: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(o + pid, square_sum(tl.load(x + pid), tl.load(x + pid + 1)))


@triton.jit
def chosen_pointer(x, y, o, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    source = x if pid % 3 == 0 else y
    tl.store(o + pid * N + i, tl.load(source + pid * N + i))
    mixed = tl.where(i % 2 == 0, x + i, y + i)
    tl.store(o + (tl.num_programs(0) + pid) * N + i, tl.load(mixed))


@triton.jit
def grids(o):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(o + place, x * 10000 + y * 100 + z)


@triton.jit
def overlapping(x, o, N: tl.constexpr):
    """Each program also writes the first element of the next one's row."""
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(x + pid * N + i)
    tl.store(o + pid * N + i, a)
    tl.store(o + (pid + 1) * N, tl.sum(a))


@triton.jit
def strided(x, o, s, n, N: tl.constexpr):
    """Reads columns and writes rows, in reverse."""
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(x + pid + i * s, mask=i < n, other=-1)
    tl.store(o + pid * N + (N - 1 - i), a, mask=i % 3 != 1)


@triton.jit
def indirect(x, y, o, N: tl.constexpr):
    """Rows and elements by index."""
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    row = tl.load(y + pid)
    tl.store(o + pid * N + i, tl.load(x + row * N + i))
    columns = tl.load(y + i)
    tl.store(o + (tl.num_programs(0) + pid) * N + i, tl.load(x + columns * N + pid, mask=columns > pid, other=7))


@triton.jit
def random_numbers(o, seed, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + i, tl.rand(seed, i))
    tl.store(o + tl.num_programs(0) * N + i, tl.randint(seed, i).to(tl.float32))


@triton.jit
def scalars(o, a, b, c, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, a + b * i + c)


@triton.jit
def truths(x, o, p, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(o + i, a > 0)
    tl.store(p + i, ((a > 0) & (a < 5)) | (a == -1))


@triton.jit
def layer_norm(x, w, b, o, n, eps, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    mask = i < n
    a = tl.load(x + row * n + i, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(a) / n
    centred = tl.where(mask, a - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred) / n + eps)
    tl.store(o + row * n + i, centred * scale * tl.load(w + i, mask=mask) + tl.load(b + i, mask=mask), mask=mask)
