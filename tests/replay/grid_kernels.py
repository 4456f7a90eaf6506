"""Kernels whose programs meet or access memory out of bounds, and similar kernels that do neither."""

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Copies the first n elements, block by block."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def block_pointer_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr, CHECKED: tl.constexpr):
    """Does the same with block pointers."""
    start = tl.program_id(0) * BLOCK
    x = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    o = tl.make_block_ptr(o_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    if CHECKED:
        tl.store(o, tl.load(x, boundary_check=(0,)), boundary_check=(0,))
    else:
        tl.store(o, tl.load(x))


@triton.jit
def descriptor_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Does the same with descriptors of rows of BLOCK elements; the last row is one too many if the grid is."""
    x = tl.make_tensor_descriptor(x_ptr, (n, BLOCK), (BLOCK, 1), (1, BLOCK))
    o = tl.make_tensor_descriptor(o_ptr, (n, BLOCK), (BLOCK, 1), (1, BLOCK))
    row = tl.program_id(0)
    o.store((row, 0), x.load((row, 0)))


@triton.jit
def stencil_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Each element becomes the sum of its two neighbours."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + at - 1, mask=(at > 0) & (at < n), other=0.0)
    right = tl.load(x_ptr + at + 1, mask=at < n - 1, other=0.0)
    tl.store(o_ptr + at, left + right, mask=at < n)


@triton.jit
def stencil_and_running_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr, MOVES: tl.constexpr, FIRST: tl.constexpr):
    """Overwrites each element of its operand by the one MOVES further, and keeps running sums from FIRST on."""
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    old = tl.load(x_ptr + at + MOVES, mask=at + MOVES < n, other=0.0)
    tl.store(x_ptr + at, old * 2)
    above = tl.load(o_ptr + at - BLOCK, mask=program + at * 0 >= FIRST, other=0.0)
    tl.store(o_ptr + at, above + old)


@triton.jit
def split_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """All programs add to one block."""
    columns = tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + columns, tl.load(x_ptr + tl.program_id(0) * BLOCK + columns))


@triton.jit
def lock_kernel(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    """One block for all programs, behind a lock: a sum for FACTOR 1, otherwise a result that depends on their order."""
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + columns)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr + columns, tl.load(o_ptr + columns) * FACTOR + x)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def last_program_kernel(x_ptr, part_ptr, count_ptr, o_ptr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    """The program that comes last adds up the sums of all."""
    program = tl.program_id(0)
    x = tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK))
    tl.store(part_ptr + program, tl.sum(x))
    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:
        tl.store(o_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def equal_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Each program writes its row, and the first element of the next row with the same value."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, 2 * BLOCK)
    mask = tl.arange(0, 2 * BLOCK) <= BLOCK
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@triton.jit
def far_kernel(x_ptr, o_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The index of a row is an i32 and wraps; a negative index is below n, too."""
    at = tl.program_id(0) * STRIDE + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(o_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), x)


@triton.jit
def padded_kernel(x_ptr, o_ptr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Rows of COLUMNS elements in wider blocks."""
    columns = tl.arange(0, BLOCK)
    mask = columns < (COLUMNS if MASKED else BLOCK)
    at = tl.program_id(0) * COLUMNS + columns
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.store(o_ptr + at, x * (1 + tl.program_id(0)), mask=mask)
