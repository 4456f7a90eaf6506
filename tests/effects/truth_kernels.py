"""Kernels that overwrite, share and leave out elements: one for each mistake, and one for each correct way."""

# ruff: noqa: SIM108
# pyright: basic
import triton
import triton.language as tl


@triton.jit
def transpose(x, o, M, N, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :], mask=inside)
    tl.store(o + columns[None, :] * M + rows[:, None], tile, mask=inside)


@triton.jit
def transpose_by_trans(x, o, N, B: tl.constexpr):
    at = tl.arange(0, B)
    tile = tl.load(x + at[:, None] * N + at[None, :])
    places = tl.trans(at[None, :] * N + at[:, None])
    tl.store(o + places, tile)


@triton.jit
def transpose_in_place(x, N, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(x + columns[None, :] * N + rows[:, None], tile)


@triton.jit
def reverse_rows_in_place(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, COLUMNS)
    tl.store(x + row * COLUMNS + at, tl.load(x + (ROWS - 1 - row) * COLUMNS + at))


@triton.jit
def reverse_rows(x, o, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, COLUMNS)
    tl.store(o + row * COLUMNS + at, tl.load(x + (ROWS - 1 - row) * COLUMNS + at))


@triton.jit
def doubles_by_full_blocks(x, n, BLOCK: tl.constexpr):
    at = min(tl.program_id(0) * BLOCK, n - BLOCK) + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at))


@triton.jit
def copy_rows(x, o, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(o + at, tl.load(x + at))


@triton.jit
def scatter_rows(x, places, o, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns)
    tl.store(o + tl.load(places + row) * columns + at, values, mask=at < columns)


@triton.jit
def count(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def sum_all(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


@triton.jit
def maximum_of_columns(x, o, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_max(o + at, tl.load(x + tl.program_id(0) * columns + at, mask=at < columns), mask=at < columns)


@triton.jit
def running_sum(x, o, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
        tl.store(o + row * columns + at, tl.cumsum(values, 0) + carry, mask=at < columns)
        carry += tl.sum(values)


@triton.jit
def smooth(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=(at > 0) & (at < n), other=0.0)
    right = tl.load(x + at + 1, mask=at < n - 1, other=0.0)
    tl.store(o + at, (left + right) / 2, mask=at < n)


@triton.jit
def smooth_in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=(at > 0) & (at < n), other=0.0)
    right = tl.load(x + at + 1, mask=at < n - 1, other=0.0)
    tl.store(x + at, (left + right) / 2, mask=at < n)


@triton.jit
def jagged_scale(x, lengths, o, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, tl.load(lengths + row), BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(o + row * columns + at, 2 * tl.load(x + row * columns + at, mask=at < columns), mask=at < columns)


@triton.jit
def returns_early(x, o, rows, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    if row >= rows:
        return
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(o + at, tl.load(x + at))


@triton.jit
def copies_in_while(x, o, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    while start < n:
        at = start + tl.arange(0, BLOCK)
        tl.store(o + at, tl.load(x + at, mask=at < n), mask=at < n)
        start += BLOCK * tl.num_programs(0)


@triton.jit
def copies_block(x, o, M, N, B: tl.constexpr):
    row = tl.program_id(0) * B
    p = tl.make_block_ptr(x, (M, N), (N, 1), (row, 0), (B, B), (1, 0))
    q = tl.make_block_ptr(o, (M, N), (N, 1), (row, 0), (B, B), (1, 0))
    for _ in range(0, N, B):
        tl.store(q, tl.load(p, boundary_check=(0, 1)), boundary_check=(0, 1))
        p = tl.advance(p, (0, B))
        q = tl.advance(q, (0, B))


@triton.jit
def scatters_by_descriptor(x, o, rows, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, COLUMNS], [COLUMNS, 1], [1, COLUMNS])
    target = tl.make_tensor_descriptor(o, [rows, COLUMNS], [COLUMNS, 1], [1, COLUMNS])
    at = 8 * tl.program_id(0) + tl.arange(0, 8)
    target.scatter(source.gather(rows - 1 - at, 0), at, 0)


@triton.jit
def interleaves_columns(x, o, rows, columns, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)
    for column in range(tl.program_id(0), columns, PROGRAMS):
        place = row * columns + column
        tl.store(o + place, tl.load(x + place, mask=row < rows), mask=row < rows)


@triton.jit
def reads_back_scratch(x, scratch, o, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    tl.store(scratch + at, tl.load(x + at, mask=inside) * 2, mask=inside)
    tl.debug_barrier()
    tl.store(o + at, tl.load(scratch + at, mask=inside) + 1, mask=inside)


@triton.jit
def reads_back_too_much(x, scratch, o, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    tl.store(scratch + at, tl.load(x + at, mask=inside) * 2, mask=inside)
    tl.store(o + at, tl.load(scratch + at) + 1)


@triton.jit
def reads_back_what_data_says(x, scratch, o, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(scratch + at, values, mask=values > 0)
    tl.store(o + at, tl.load(scratch + at))


@triton.jit
def normalises_twice(x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    tl.store(x + row * columns + at, values - tl.sum(values) / columns, mask=inside)
    again = tl.load(x + row * columns + at, mask=inside, other=0.0)
    tl.store(x + row * columns + at, again / tl.sqrt(tl.sum(again * again) + 1), mask=inside)


@triton.jit
def lower_triangle(x, o, N, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    tl.store(o + row * N + at, tl.load(x + row * N + at, mask=at < N), mask=at <= row)


@triton.jit
def stores_where_positive(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    tl.store(o + at, values, mask=(at < n) & (values > 0))


@triton.jit
def stores_either_way(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0)
    if tl.sum(values) > 0:
        tl.store(o + at, values, mask=at < n)
    else:
        tl.store(o + at, -values, mask=at < n)


@triton.jit
def copies_cube(x, o, A, B, C, BLOCK: tl.constexpr):
    place = (tl.program_id(2) * B + tl.program_id(1)) * C + tl.program_id(0) * BLOCK
    at = tl.arange(0, BLOCK)
    inside = tl.program_id(0) * BLOCK + at < C
    tl.store(o + place + at, tl.load(x + place + at, mask=inside), mask=inside)


@triton.jit
def chooses_output(x, o, p, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        target = o
    else:
        target = p
    tl.store(target + at, tl.load(x + at))


@triton.jit
def overlapping_windows(o, BLOCK: tl.constexpr):
    tl.store(o + tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK), 1.0)


@triton.jit
def split_and_join(x, o, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    even, odd = tl.split(tl.reshape(tl.load(x + at), (BLOCK // 2, 2)))
    tl.store(o + at, tl.reshape(tl.join(odd, even), (BLOCK,)))


@triton.jit(noinline=True)
def put(o, at, value):
    tl.store(o + at, value)


@triton.jit
def stores_in_function(x, o, n, BLOCK: tl.constexpr):
    for at in range(tl.program_id(0) * BLOCK, min(n, (tl.program_id(0) + 1) * BLOCK)):
        put(o, at, tl.load(x + at))


@triton.jit
def assembly(x, o):
    at = tl.arange(0, 16)
    value = tl.load(x + at)
    tl.store(o + at, tl.inline_asm_elementwise("shl.b32 $0, $1, 3;", "=r,r", [value], tl.int32, True, 1))


@triton.jit
def takes_a_ticket(tickets, o, n, BLOCK: tl.constexpr):
    ticket = tl.atomic_add(tickets, 1)
    at = ticket * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, at.to(tl.float32), mask=at < n)


@triton.jit
def only_one_program_writes(x, o, n, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(o + at, tl.load(x + at, mask=at < n), mask=at < n)
