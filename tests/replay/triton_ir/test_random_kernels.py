"""Random kernels equal Triton's own interpreter bit for bit.

20 of them every day, 200 in the nightly run; LIGERDIAG_RANDOM_KERNELS=1000 sets another number.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ligerdiag.replay.triton_ir.outcome import GridOptions
from tests.replay.triton_ir.oracle import run_oracle
from tests.replay.triton_ir.random_kernels import make_launch, write_kernels
from tests.replay.triton_ir.run import run_launch
from tests.rotation import current_turn, take_turns

COUNT = int(os.environ.get("LIGERDIAG_RANDOM_KERNELS", "200"))
DAILY, PART = 20, 20
FIRST = [pytest.param(first, marks=() if first < DAILY else pytest.mark.nightly) for first in range(0, COUNT, PART)]


@pytest.mark.parametrize("first", FIRST)
def test_random_kernels_equal_tritons_interpreter(first: int, tmp_path: Path) -> None:
    seeds = range(first, min(first + PART, COUNT))
    if first < DAILY:
        seeds = take_turns(seeds, current_turn())
    file = tmp_path / f"random_kernels_{first}.py"
    write_kernels(file, seeds)
    launches = [make_launch(seed) for seed in seeds]
    wrong: list[str] = []
    ran = 0
    for seed, launch, wanted in zip(seeds, launches, run_oracle(file, launches, tmp_path), strict=True):
        if isinstance(wanted, str):  # numbers that Python's own integers held until then
            assert wanted.startswith("OverflowError: Python integer"), f"kernel {seed}: {wanted}"
            continue
        ran += 1
        for optimized, batch_bytes in ((False, 1 << 20), (True, 300)):
            options = GridOptions(batch_bytes=batch_bytes)
            found, outcome = run_launch(file, launch, optimized=optimized, options=options)
            assert outcome.meeting is None
            assert not outcome.out_of_bounds
            wrong += [
                f"kernel {seed}, {name}: {_differ(found[name], wanted[name])}"
                for name in ("o", "p")
                if not _agree(found[name], wanted[name])
            ]
    assert not wrong, "\n".join(wrong)
    assert ran > 0.8 * len(seeds)


def _agree(found: Any, wanted: Any) -> bool:
    return bool(np.array_equal(found, wanted, equal_nan=found.dtype.kind == "f"))


def _differ(found: Any, wanted: Any) -> str:
    places = np.flatnonzero(found != wanted)
    return f"{places.size} of {found.size} elements, the first {found[places[0]]!r} for {wanted[places[0]]!r}"
