"""Launches of kernels without data-dependent addresses, in many sizes."""

import numpy as np

from tests.effects import truth_kernels as k
from tests.effects import truth_tutorials as t
from tests.effects.truth_case import F, TruthCase


def make_sweep(seed: int = 5) -> dict[str, TruthCase]:
    """Makes launches of every size and grid: too large, too small, just right."""
    chance = np.random.default_rng(seed)
    pick = lambda *values: int(chance.choice(values))  # noqa: E731
    made: dict[str, TruthCase] = {}
    for number in range(12):
        n, extra, block, programs = pick(1, 7, 64, 65, 100), pick(0, 0, 3), pick(16, 32), pick(1, 2, 3, 4, 7)
        rows, columns = pick(1, 3, 6), pick(1, 16, 20)
        flat = {"x": (F, n + extra), "o": (F, n + extra)}
        table = {"x": (F, rows * columns + extra), "o": (F, rows * columns + extra)}
        chosen: list[TruthCase] = [
            TruthCase(
                kernel=kernel,
                buffers=buffers,
                scalars=scalars,
                constants=constants,
                grid=grid,
                expected={},
            )
            for kernel, buffers, scalars, constants, grid in (
                (k.copies_in_while, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.smooth, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.smooth_in_place, {"x": flat["x"]}, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.only_one_program_writes, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.stores_in_function, flat, {"n": n}, {"BLOCK": block}, (programs, 1, 1)),
                (k.running_sum, table, {"columns": columns}, {"BLOCK": 16}, (pick(*range(1, rows + 1)), 1, 1)),
                (
                    k.interleaves_columns,
                    table,
                    {"rows": rows, "columns": columns},
                    {"PROGRAMS": pick(1, 3, 5), "BLOCK": 8},
                    (programs, 1, 1),
                ),
                (
                    k.transpose,
                    table,
                    {"M": rows, "N": columns},
                    {"B": 8},
                    (pick(1, 1, 2), pick(1, 2, 3), 1),
                ),
                (k.copies_block, table, {"M": rows, "N": columns}, {"B": 4}, (pick(1, 2, 3), 1, 1)),
                (
                    t.persistent_matmul,
                    {"a": (F, rows * 8 + 8), "b": (F, 8 * columns + 8), "c": (F, (rows + 1) * (columns + 1) + extra)},
                    {"M": rows + 1, "N": columns + 1, "K": 8},
                    {"PROGRAMS": pick(1, 2, 4), "B": 16, "GROUP": pick(1, 2)},
                    (programs, 1, 1),
                ),
                (
                    k.lower_triangle,
                    {"x": (F, columns * columns), "o": (F, columns * columns)},
                    {"N": columns},
                    {"B": 32},
                    (pick(*range(1, columns + 1)), 1, 1),
                ),
            )
        ]
        made |= {f"{case.kernel.__name__} {number}": case for case in chosen}
    return made


SWEEP = make_sweep()
