"""The right rule for each launch, derived by hand, from the launch alone and from replay."""

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ligerdiag.effects.access import Neighbours
from ligerdiag.effects.call import parse_configurations
from ligerdiag.effects.kernel_effects import compute_kernel_effects
from tests.replay import grid_variants
from tests.replay.interpreted_kernels import make_call, run

TINY = 1e-5
UNWRITTEN, ORDER, IN_PLACE = "LD025", "LD019", "LD011"


def draw(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    random = np.random.default_rng(0)
    size = int(np.prod(shape))
    if np.dtype(dtype).kind in "iu":
        return random.integers(1, 100, size).astype(dtype)
    return random.normal(size=size).astype(dtype)


def zeros(size: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(size, dtype)


PLACES = np.array([3, 1, 3, 0, 2, 3, 1, 0], np.int32)
"""Places out of eight, with repetitions."""


@dataclass(frozen=True)
class Launch:
    """One launch, and the right rules for it."""

    kernel: str
    operands: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    grid: tuple[int, ...]
    rules: set[str]
    constants: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, tuple[str, Any]] = field(default_factory=dict)
    zeroed: tuple[int, ...] = ()
    share: dict[int, int] = field(default_factory=dict)
    static: set[str] | None = None
    """The rules that the launch alone proves, if these are not all."""


X, ROWS, B = draw(8, 16), 8, {"BLOCK": 16}
I32 = draw(8, dtype=np.int32)
A, W = draw(16, 64), draw(64, 16)
K = {"M": 16, "N": 16, "K": 64, "BK": 16}
BF16 = ml_dtypes.bfloat16
NOTHING: set[str] = set()

# fmt: off
LAUNCHES: dict[str, Launch] = {
    # sums onto an output that is not zeroed
    "a sum by atomics": Launch("sum_rows", (X,), (zeros(1),), (8,), {UNWRITTEN}, B),
    "a sum by atomics, zeroed": Launch("sum_rows", (X,), (zeros(1),), (8,), NOTHING, B, zeroed=(0,)),
    "a sum by atomics of one program": Launch("sum_rows", (X,), (zeros(1),), (1,), {UNWRITTEN}, {"BLOCK": 128}),
    "columns by atomics": Launch("add_columns", (X,), (zeros(16),), (8, 2), {UNWRITTEN}, {"ROWS": 8, "BLOCK": 8}),
    "columns by atomics, zeroed": Launch(
        "add_columns", (X,), (zeros(16),), (8, 2), NOTHING, {"ROWS": 8, "BLOCK": 8}, zeroed=(0,)
    ),
    "a histogram": Launch("histogram", (PLACES,), (zeros(4, np.int32),), (2,), {UNWRITTEN}, {"BLOCK": 4}),
    "a histogram, zeroed": Launch(
        "histogram", (PLACES,), (zeros(4, np.int32),), (2,), NOTHING, {"BLOCK": 4}, zeroed=(0,)
    ),
    "a histogram onto an operand": Launch(
        "histogram", (PLACES, zeros(4, np.int32)), (), (2,), NOTHING, {"BLOCK": 4}
    ),
    "a masked histogram": Launch(
        "masked_histogram", (PLACES,), (zeros(4, np.int32),), (3,), {UNWRITTEN}, {"BLOCK": 4}, {"n": ("i32", 7)}
    ),
    "a maximum": Launch("largest", (X,), (zeros(1),), (8,), {UNWRITTEN}, B),
    "a maximum of integers": Launch("largest", (I32,), (zeros(1, np.int32),), (2,), {UNWRITTEN}, {"BLOCK": 4}),
    "a minimum in a branch": Launch("smallest_by_branch", (X,), (zeros(1),), (8,), {UNWRITTEN}, B),
    "split-K": Launch("split_k", (A, W), (zeros(256),), (4,), {UNWRITTEN}, K),
    "split-K, zeroed": Launch("split_k", (A, W), (zeros(256),), (4,), NOTHING, K, zeroed=(0,)),
    "split-K in bf16": Launch(
        "split_k", (A.astype(BF16), W.astype(BF16)), (zeros(256, BF16),), (4,), {UNWRITTEN}, K
    ),
    "an accumulation": Launch("accumulate", (X,), (zeros(16),), (2,), {UNWRITTEN}, {"ROWS": 8, "BLOCK": 8}),
    "an accumulation, zeroed": Launch(
        "accumulate", (X,), (zeros(16),), (2,), NOTHING, {"ROWS": 8, "BLOCK": 8}, zeroed=(0,)
    ),
    "an accumulation from zero": Launch(
        "accumulate_from_zero", (X,), (zeros(16),), (2,), NOTHING, {"ROWS": 8, "BLOCK": 8}
    ),
    "an accumulation whose first round stores": Launch(
        "first_row_stores", (X,), (zeros(16),), (2,), NOTHING, {"ROWS": 8, "BLOCK": 8}
    ),
    "beta of zero": Launch("beta", (X,), (zeros(128),), (8,), NOTHING, B, {"factor": ("fp32", 0.0)}),
    "beta of a half": Launch(
        "beta", (X,), (zeros(128),), (8,), {UNWRITTEN}, B, {"factor": ("fp32", 0.5)}, static=NOTHING
    ),
    "a load that is masked away": Launch("masked_load", (X,), (zeros(128),), (8,), NOTHING, B),
    "zeros and then atomics": Launch("init_then_atomics", (X,), (zeros(16),), (1,), NOTHING, B),
    "the first program sets to zero": Launch(
        "first_program_initialises", (X,), (zeros(1),), (8,), {ORDER}, B, static=NOTHING
    ),
    "the only program sets to zero": Launch(
        "first_program_initialises", (X,), (zeros(1),), (1,), NOTHING, {"BLOCK": 128}
    ),
    "an exchange as a store": Launch("exchange_alone", (X,), (zeros(128),), (8,), NOTHING, B),
    "a compare-and-swap": Launch("claim", (I32,), (zeros(8, np.int32),), (8,), {UNWRITTEN}, B),
    "old elements at places from memory": Launch(
        "gathered_old", (np.arange(8, dtype=np.int32),), (zeros(8, np.int32),), (2,), {UNWRITTEN}, {"BLOCK": 4},
        static=NOTHING,
    ),
    "what it has written is read back": Launch("read_back", (X,), (zeros(128),), (8,), NOTHING, B),
    "an update by block pointers": Launch("block_pointer_update", (X,), (zeros(128),), (8,), {UNWRITTEN}, B),
    "an update by block pointers, zeroed": Launch(
        "block_pointer_update", (X,), (zeros(128),), (8,), NOTHING, B, zeroed=(0,)
    ),
    "an addition by descriptors": Launch(
        "descriptor_add", (X,), (zeros(16),), (8,), {UNWRITTEN}, {"ROWS": 8, "BLOCK": 16}
    ),
    "an addition by descriptors, zeroed": Launch(
        "descriptor_add", (X,), (zeros(16),), (8,), NOTHING, {"ROWS": 8, "BLOCK": 16}, zeroed=(0,)
    ),
    # updates that are lost
    "a cell": Launch("cell", (X,), (zeros(1),), (8,), {ORDER}, B, zeroed=(0,)),
    "a cell that nobody has set": Launch("cell", (X,), (zeros(1),), (8,), {ORDER, UNWRITTEN}, B),
    "a cell of one program": Launch("cell", (X,), (zeros(1),), (1,), NOTHING, {"BLOCK": 128}, zeroed=(0,)),
    "a cell of an operand": Launch("cell_in_place", (X, zeros(1)), (zeros(8),), (8,), {IN_PLACE}, B),
    "a cell by a helper": Launch("sum_by_helper", (X,), (zeros(1),), (8,), {ORDER}, B, zeroed=(0,)),
    "a cell of an operand, aliased": Launch(
        "cell", (X, zeros(1)), (zeros(1),), (8,), {IN_PLACE}, B, share={1: 0}
    ),
    "split-K without atomics": Launch("split_k_plain", (A, W), (zeros(256),), (4,), {ORDER}, K, zeroed=(0,)),
    "a plain histogram": Launch(
        "plain_histogram", (PLACES,), (zeros(4, np.int32),), (8,), {ORDER}, B, zeroed=(0,), static=NOTHING
    ),
    "a plain histogram of different bins": Launch(
        "plain_histogram", (np.arange(8, dtype=np.int32),), (zeros(8, np.int32),), (8,), NOTHING, B, zeroed=(0,)
    ),
    "rows added at places from memory": Launch(
        "scatter_rows", (PLACES, X), (zeros(64),), (8,), {ORDER}, B, zeroed=(0,), static=NOTHING
    ),
    "a maximum without atomics": Launch("keep_largest", (X,), (zeros(1),), (8,), {ORDER}, B, zeroed=(0,)),
    "all is stored back": Launch("write_back_where", (draw(8),), (zeros(8),), (8,), {ORDER}, {"BLOCK": 8}, zeroed=(0,)),
    "tiles of a column of the grid": Launch(
        "column_tiles", (X,), (zeros(16),), (2, 8), {ORDER}, {"BLOCK": 8, "TILES": 2}, zeroed=(0,)
    ),
    "persistent programs on one row": Launch(
        "persistent", (X,), (zeros(16),), (2,), {ORDER}, {"TILES": 8, "BLOCK": 16}, zeroed=(0,)
    ),
    "persistent programs on rows of their own": Launch(
        "partial_sums", (X,), (zeros(32),), (2,), NOTHING, {"TILES": 8, "BLOCK": 16}, zeroed=(0,)
    ),
    "in bf16": Launch("cell", (X.astype(BF16),), (zeros(1, BF16),), (8,), {ORDER}, B, zeroed=(0,)),
    "the same value from all": Launch("set_flag", (X,), (zeros(1),), (8,), NOTHING, {"BLOCK": 128}),
    "elements of its own": Launch("twice_halves", (X,), (zeros(128),), (8,), NOTHING, B, zeroed=(0,)),
    "a lock around it": Launch("locked_sum", (X, zeros(1, np.int32)), (zeros(1),), (8,), NOTHING, B, zeroed=(0,)),
    "an atomic operation beside it": Launch(
        "unlocked_beside_lock", (X, zeros(1, np.int32)), (zeros(1),), (8,), {ORDER}, B, zeroed=(0,)
    ),
    "the lock of layer norm": Launch(
        "norm_backward", (X, zeros(4, np.int32)), (zeros(32),), (8,), NOTHING, {"GROUP": 2, "BLOCK": 16}
    ),
    "the row above": Launch("running_rows", (X,), (zeros(128),), (8,), {ORDER}, B),
    # who comes first
    "tickets": Launch("tickets", (X, zeros(1, np.int32)), (zeros(128),), (8,), {ORDER}, B, static=NOTHING),
    "a ticket": Launch("tickets", (X, zeros(1, np.int32)), (zeros(16),), (1,), NOTHING, B),
    "a compaction": Launch("compact", (X, zeros(1, np.int32)), (zeros(128),), (8,), {ORDER}, B, static=NOTHING),
    "a list of candidates": Launch(
        "candidates", (draw(8), zeros(1, np.int32)), (zeros(8, np.int32),), (8,), {ORDER}, B,
        {"threshold": ("fp32", -0.5)}, static=NOTHING,
    ),
    "a list of one candidate": Launch(
        "candidates", (np.arange(8.0, dtype=np.float32), zeros(1, np.int32)), (zeros(8, np.int32),), (8,), NOTHING, B,
        {"threshold": ("fp32", 6.5)},
    ),
    "the first to find a flag": Launch(
        "tickets_by_cas", (X, zeros(1, np.int32)), (zeros(1, np.int32),), (8,), {ORDER}, B, static=NOTHING
    ),
    "the last exchange stays": Launch("last_wins", (draw(8),), (zeros(1),), (8,), {ORDER}, B, static=NOTHING),
    "exchanges of one value": Launch("last_wins", (np.ones(8, np.float32),), (zeros(1),), (8,), NOTHING, B),
    "a sum and a maximum": Launch(
        "add_and_keep_largest", (np.array([5, 90, 1, 50, 3, 70, 2, 8], np.int32),), (zeros(1, np.int32),), (8,), {ORDER},
        B, zeroed=(0,), static=NOTHING,
    ),
    "sums in the order of arrival": Launch(
        "previous_sum", (I32, zeros(1, np.int32)), (zeros(8, np.int32),), (8,), {ORDER}, B, static=NOTHING
    ),
    "places in buckets": Launch(
        "reserve_per_bucket", (PLACES, draw(8), zeros(4, np.int32)), (zeros(32),), (8,), {ORDER}, {"ROOM": 8, "BLOCK": 1},
        static=NOTHING,
    ),
    "places in buckets of one": Launch(
        "reserve_per_bucket", (np.arange(8, dtype=np.int32), draw(8), zeros(8, np.int32)), (zeros(64),), (8,), NOTHING,
        {"ROOM": 8, "BLOCK": 1},
    ),
    "tiles from a queue": Launch(
        "work_queue", (X, zeros(1, np.int32)), (zeros(128),), (3,), NOTHING, {"TILES": 8, "BLOCK": 16}
    ),
    "the largest and its row": Launch(
        "largest_and_its_row", (X,), (zeros(1), zeros(1, np.int32)), (8,), {ORDER}, B, zeroed=(0, 1), static=NOTHING
    ),
    "the largest and a copy of its row": Launch(
        "largest_row_copied", (X,), (zeros(1), zeros(16)), (8,), {ORDER}, B, zeroed=(0, 1), static=NOTHING
    ),
    "the largest, and that there was one": Launch(
        "raised_at_all", (X,), (zeros(1), zeros(1, np.int32)), (8,), NOTHING, B, zeroed=(0, 1)
    ),
    "the first one stores, the others add": Launch(
        "first_ticket_stores", (X, zeros(1, np.int32)), (zeros(16),), (8,), {ORDER}, B, static=NOTHING
    ),
    "all add, the last one divides": Launch(
        "last_ticket_divides", (X, zeros(1, np.int32)), (zeros(16),), (8,), NOTHING, B, zeroed=(0,)
    ),
    "the last one adds up": Launch(
        "last_block_reduces", (X, zeros(1, np.int32)), (zeros(8), zeros(1)), (8,), NOTHING, {"BLOCK": 16, "PROGRAMS": 8}
    ),
}
# fmt: on


def make(launch: Launch) -> tuple[str, dict[str, Any]]:
    fields = {"grid": launch.grid, "constants": launch.constants, "scalars": launch.scalars, "zeroed": launch.zeroed}
    return f"{grid_variants.__name__}.{launch.kernel}", fields


@pytest.mark.parametrize("name", LAUNCHES)
def test_replay_finds_each_error_and_nothing_else(name: str) -> None:
    launch = LAUNCHES[name]
    kernel, fields = make(launch)
    *_, (seen,) = run(kernel, list(launch.operands), list(launch.outputs), share=launch.share, **fields)
    found = {UNWRITTEN} if seen.old_reads else set[str]()
    found |= {ORDER} if seen.order_difference > TINY else set()
    found |= {IN_PLACE} if any(difference > TINY for difference in seen.racing.values()) else set()
    assert found == launch.rules


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_launch_alone_proves_the_expected_findings(name: str) -> None:
    launch = LAUNCHES[name]
    kernel, fields = make(launch)
    call = make_call(kernel, launch.operands, launch.outputs, **fields)
    count = len(launch.operands)
    effects = compute_kernel_effects(
        parse_configurations(call.proto.custom_call_target, call.proto.backend_config),
        operands=count,
        outputs=len(launch.outputs),
        sizes=[buffer.nbytes for buffer in (*launch.operands, *launch.outputs)],
    )
    shared = {count + output for output in launch.share.values()}
    found = set[str]()
    for output, use in enumerate(effects.output_uses):
        found |= {UNWRITTEN} if use.old_read is not None and count + output not in shared else set()
    for buffer in range(count + len(launch.outputs)):
        pair = effects.get_in_place(buffer, buffer)
        if pair is not None and pair.neighbours is Neighbours.SHARED:
            found |= {IN_PLACE if buffer < count or buffer in shared else ORDER}
    assert found == (launch.rules if launch.static is None else launch.static)
