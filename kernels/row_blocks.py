"""How many elements of a row, and how many warps, a program has that holds a whole row at a time."""

import triton

MAX_ROW = 2**20
"""Elements of the longest row: Triton's own limit for one block."""


def compute_row_block(row: int) -> int:
    """Returns the elements of the block that holds a row of that many; ValueError where Triton has no block so large."""
    if row > MAX_ROW:
        raise ValueError(f"Expected rows of at most {MAX_ROW} elements but got {row}")
    return triton.next_power_of_2(row)


def choose_warps(block: int, elements: int = 16) -> int:
    """Returns the warps that give each thread about `elements` elements of the block, from 1 to 32."""
    return min(32, max(1, block // (32 * elements)))
