"""A row of any length in one or two blocks of elements, since Triton's blocks are powers of two.

A program holds a whole row. 11008 elements in one block of 16384 leave a third of the program's registers empty, and in two
of 8192 and 4096 a tenth.
"""

import triton
import triton.language as tl

MAX_ROW = 2**20
"""Elements of the longest row: Triton's own limit for a block."""


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


def choose_stages(block: int) -> int:
    """Returns how many rows of a loop are on their way at a time: as many as the shared memory of an H100 holds, or 1."""
    return 3 if block <= 8192 else 1
