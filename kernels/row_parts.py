"""Splits a row of any length into one or two blocks of elements, because Triton's blocks are powers of two.

A program holds a whole row. A row of 11008 elements leaves a third of the program's registers empty if it is in one block of
16384, and a tenth if it is in two blocks of 8192 and 4096. To sum over a row, the second block is added to the first
(`fold_parts`), and a single sum is taken over the result. In every sum all threads of the program wait for one another.
"""

import triton
import triton.language as tl

MAX_ROW = 2**20
"""Number of elements of the longest row: Triton's own limit for a block."""
WIDE = 8192
"""Block size above which only one program fits on a multiprocessor, with no registers left for the weight."""
MAX_SHARED_BYTES = 150 * 2**10
"""The most bytes of a program's shared memory for prefetched rows; an A100 has 163 KiB of it, later GPUs 227 KiB."""


@triton.jit
def load_part(row_ptr, here, START: tl.constexpr, BLOCK: tl.constexpr, ROW: tl.constexpr):
    """Returns the elements of a row from START on; zeros after its end, and if `here` is false."""
    column = START + tl.arange(0, BLOCK)
    return tl.load(row_ptr + column, mask=(column < ROW) & here, other=0.0)


@triton.jit
def store_part(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    row_ptr, values, here, START: tl.constexpr, BLOCK: tl.constexpr, ROW: tl.constexpr
):
    """Stores the elements of a row from START on, if `here` is true."""
    column = START + tl.arange(0, BLOCK)
    tl.store(row_ptr + column, values, mask=(column < ROW) & here)


@triton.jit
def fold_parts(block, tail, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """Returns an array, float[TAIL], whose sum is the sum of both blocks; the first block if there is no second (TAIL 0)."""
    if TAIL > 0:
        block = tl.sum(tl.reshape(block, [BLOCK // TAIL, TAIL]), axis=0) + tail
    return block


@triton.jit
def sum_pairs(first, second):
    """Returns the sums of two blocks of one size, with a single synchronization of the threads."""
    return tl.reduce((first, second), 0, _add_pairs)


@triton.jit
def _add_pairs(first, second, other_first, other_second):
    return first + other_first, second + other_second


def compute_row_block(row: int) -> int:
    """Returns the size of the one block that holds a row of this many elements; raises ValueError for more than MAX_ROW."""
    if row > MAX_ROW:
        raise ValueError(f"Expected rows of at most {MAX_ROW} elements but got {row}")
    return triton.next_power_of_2(row)


def split_row(row: int) -> dict[str, int]:
    """Returns the sizes `BLOCK` and `TAIL` of the two blocks that hold a row of this many elements; `TAIL` is 0 if one block
    is enough.

    Raises ValueError for a row that is longer than MAX_ROW.
    """
    whole = compute_row_block(row)
    tail = triton.next_power_of_2(row - whole // 2)
    return {"BLOCK": whole, "TAIL": 0} if tail == whole // 2 or whole <= 1024 else {"BLOCK": whole // 2, "TAIL": tail}


def choose_warps(block: int, *, most: int) -> int:
    """Returns the number of warps that gives each thread 8 elements of the block: a power of two from 1 to `most`."""
    return min(most, max(1, block // 256))


def choose_stages(block: int, row_bytes: int) -> int:
    """Returns how many rows a loop over rows loads at a time: three, or one if two more rows do not fit.

    block: elements of a block; if these are more than 8192, the program's registers hold no other row. row_bytes: bytes that
    the loop loads for one row; two more rows must fit into shared memory.
    """
    return 3 if block <= 8192 and 2 * row_bytes <= MAX_SHARED_BYTES else 1
