"""Kernels that have already run on the same bytes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.replay.runs.kernel_memo import WATCHED, WORTHWHILE, RememberedKernels
from tests.replay.by_hand import Doubling
from tests.replay.interpreted_kernels import make_custom_call

SIZE = WORTHWHILE


CALL, OTHER = make_custom_call("triton_kernel_call", b"p"), make_custom_call("triton_kernel_call", b"q")


def launch(
    kernels: RememberedKernels, x: np.ndarray, call: HloInstruction = CALL, *, watched: bool = False
) -> np.ndarray:
    operand, output = x.copy(), np.empty_like(x)
    kernels.launch(call, [operand], [output], watched=watched)
    assert (output == x).all()
    assert (operand == 2 * x).all()
    return operand


def test_the_same_launch_runs_once_and_leaves_the_same_bytes() -> None:
    runner = Doubling()
    kernels = RememberedKernels(runner, limit=1 << 30)
    x = np.arange(SIZE, dtype=np.float32)
    for _ in range(3):
        launch(kernels, x)
    assert (len(runner.launches), kernels.hits) == (1, 2)


def test_other_bytes_another_kernel_or_a_launch_above_the_limit_run_again() -> None:
    runner = Doubling()
    kernels = RememberedKernels(runner, limit=1 << 30)
    x = np.arange(SIZE, dtype=np.float32)
    launch(kernels, x)
    launch(kernels, x + 1)
    launch(kernels, x, OTHER)
    small = RememberedKernels(runner, limit=8)
    launch(small, x)
    launch(small, x)
    assert len(runner.launches) == 5


def test_whether_output_and_operand_share_their_bytes_is_part_of_a_launch() -> None:
    runner = Doubling()
    kernels = RememberedKernels(runner, limit=1 << 30)
    x = np.arange(SIZE, dtype=np.float32)
    launch(kernels, x)
    shared = x.copy()
    kernels.launch(CALL, [shared], [shared], watched=False)
    assert len(runner.launches) == 2


def test_an_output_in_the_bytes_of_an_operand_has_the_launch_s_contents() -> None:
    runner = Doubling()
    kernels = RememberedKernels(runner, limit=1 << 30)
    for _ in range(2):
        x = np.arange(SIZE, dtype=np.float32)
        kernels.launch(CALL, [x], [x[:]], watched=False)
        assert (x == 2 * np.arange(SIZE)).all()
    assert (len(runner.launches), kernels.hits) == (1, 1)


def test_an_output_in_part_of_an_operand_has_the_launch_s_contents() -> None:
    @dataclass
    class Halving:
        launches: int = 0

        def runs(self, instruction: HloInstruction) -> bool:
            return is_call_with(instruction, CallTrait.CARRIES_TRITON)

        def launch(self, call: HloInstruction, operands: Any, outputs: Any, *, watched: bool) -> None:
            self.launches += 1
            outputs[0][...] = operands[0][: len(outputs[0])] / 2

    runner = Halving()
    kernels = RememberedKernels(runner, limit=1 << 30)
    for _ in range(2):
        x = np.arange(SIZE, dtype=np.float32)
        kernels.launch(CALL, [x], [x[: SIZE // 2]], watched=False)
        half = np.arange(SIZE // 2, dtype=np.float32)
        assert (x[: SIZE // 2] == half / 2).all()
        assert (x[SIZE // 2 :] == SIZE // 2 + half).all()
    assert (runner.launches, kernels.hits) == (1, 1)


def test_the_first_watched_launches_of_a_call_always_run() -> None:
    runner = Doubling()
    kernels = RememberedKernels(runner, limit=1 << 30)
    x = np.arange(SIZE, dtype=np.float32)
    launch(kernels, x)
    for _ in range(WATCHED + 3):
        launch(kernels, x, watched=True)
    assert [name for name, _ in runner.launches] == ["", *[CALL.name] * WATCHED]
