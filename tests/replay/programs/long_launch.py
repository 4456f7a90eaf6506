"""Runs a launch that takes for ever on two processes; each says when it has begun."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import time

import numpy as np
import triton
import triton.language as tl

from ligerdiag.replay.kernels.kernels import KernelRunner


def wait_for_ever(value):
    print("begun", flush=True)
    time.sleep(3600)
    return value


@triton.jit
def endless_kernel(o_ptr):
    tl.store(o_ptr, wait_for_ever(1))


def main() -> None:
    from tests.replay.interpreted_kernels import make_launch

    launch = make_launch("tests.replay.programs.long_launch.endless_kernel", (2,), 0, 1)
    with KernelRunner([launch], processes=2, split_seconds=0.0) as runner:
        runner.launch(launch.payload, [], [np.zeros(1, np.float32)])


if __name__ == "__main__":
    main()
