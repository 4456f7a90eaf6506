"""A row of any length in one or two blocks of elements, since Triton's blocks are powers of two.

A program holds a whole row. 11008 elements in one block of 16384 leave a third of the program's registers empty, and in two
of 8192 and 4096 a tenth. A sum over a row is a sum over one block: the other is added to it first (`fold_parts`), for all
threads of the program wait for one another in every sum.
"""

import triton
import triton.language as tl

MAX_ROW = 2**20
"""Elements of the longest row: Triton's own limit for a block."""
WIDE = 8192
"""Elements of a row's blocks. Where there are more, the row and the sums over rows leave room for one program on each
multiprocessor, and no registers for the weight."""
MAX_SHARED_BYTES = 150 * 2**10
"""The shared memory of a program that prefetched rows may take; an A100 has 163 KiB of it, later GPUs 227 KiB."""


@triton.jit
def load_part(row_ptr, here, START: tl.constexpr, BLOCK: tl.constexpr, ROW: tl.constexpr):
    """Returns the elements of a row from START on; zeros behind its end, and if it is not here."""
    column = START + tl.arange(0, BLOCK)
    return tl.load(row_ptr + column, mask=(column < ROW) & here, other=0.0)


@triton.jit
def store_part(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    row_ptr, values, here, START: tl.constexpr, BLOCK: tl.constexpr, ROW: tl.constexpr
):
    """Stores the elements of a row from START on, if it is here."""
    column = START + tl.arange(0, BLOCK)
    tl.store(row_ptr + column, values, mask=(column < ROW) & here)


@triton.jit
def fold_parts(block, tail, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """Returns numbers with the sum of both blocks, float[TAIL]; those of the first where there is no other (TAIL 0)."""
    if TAIL > 0:
        block = tl.sum(tl.reshape(block, [BLOCK // TAIL, TAIL]), axis=0) + tail
    return block


@triton.jit
def sum_pairs(first, second):
    """Returns the sums of two blocks of one size: the threads wait for one another once."""
    return tl.reduce((first, second), 0, _add_pairs)


@triton.jit
def _add_pairs(first, second, other_first, other_second):
    return first + other_first, second + other_second


def compute_row_block(row: int) -> int:
    """Returns the size of the one block that holds a row of that many elements; ValueError for more than MAX_ROW."""
    if row > MAX_ROW:
        raise ValueError(f"Expected rows of at most {MAX_ROW} elements but got {row}")
    return triton.next_power_of_2(row)


def split_row(row: int) -> dict[str, int]:
    """Returns the sizes of the blocks that hold a row of that many elements, `BLOCK` and `TAIL`, the latter 0 if one does.

    Raises ValueError for a row that is longer than MAX_ROW.
    """
    whole = compute_row_block(row)
    tail = triton.next_power_of_2(row - whole // 2)
    return {"BLOCK": whole, "TAIL": 0} if tail == whole // 2 or whole <= 1024 else {"BLOCK": whole // 2, "TAIL": tail}


def choose_warps(block: int, *, most: int) -> int:
    """Returns the warps that give each thread 8 elements of the block, from 1 to `most`, a power of two."""
    return min(most, max(1, block // 256))


def choose_stages(block: int, row_bytes: int) -> int:
    """Returns how many rows of a loop are on their way at a time: three, or one where two wait in too much shared memory.

    block: elements; of more than 8192, the program's registers hold no other row. row_bytes: of all that the loop loads for
    a row.
    """
    return 3 if block <= 8192 and 2 * row_bytes <= MAX_SHARED_BYTES else 1
